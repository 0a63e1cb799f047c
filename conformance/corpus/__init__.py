"""Logits to test on: rows of a real language model and rows made to hurt."""
