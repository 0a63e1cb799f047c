"""The reference: every step of the contract in float64 NumPy, exact and slow."""
