"""Adapters: each makes one sampler a backend."""
