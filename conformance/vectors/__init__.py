"""Vectors: the suites' cases as files, and the judge of the answers that any program gives to them."""
