"""Causes by comparing answers: the same calls to the sampler under test and to every known faulty sampler."""
