"""Logits processors as plug-ins: the interface, the built-in ones, and how custom ones are loaded."""
