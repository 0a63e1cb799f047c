"""The state machine: histories of a persistent batch that look for a row unlike a fresh one."""
