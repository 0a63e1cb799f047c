"""The parts of the judge: outcome, calls to the backend, and one module for each kind of evidence."""
