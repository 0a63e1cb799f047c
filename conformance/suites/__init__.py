"""The checks, one module per group of clauses; a test's name begins with the ids of its clauses."""
