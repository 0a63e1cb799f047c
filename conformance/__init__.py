"""Backends, suites, faults and the command line: any sampler against the oracle."""
