"""`python -m aliquot` is the command line."""

from aliquot.conformance.cli import main

main()
