"""Conformance suite and reference oracle for LLM token samplers."""

__version__ = "0.1.0"
