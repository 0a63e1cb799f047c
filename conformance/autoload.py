"""Loads the plugin into a pytest run that names the suites, and into no other.

Every pytest run where aliquot is installed imports this module; the plugin's options would clash with those of
projects that have a `--seed` of their own.
"""

import os
import sys

import pytest

MARK = "ALIQUOT_SUITES"


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the plugin when the command line names the suites; workers learn it from the environment."""
    if any("aliquot.conformance" in argument for argument in sys.argv):
        os.environ[MARK] = "1"
    if MARK in os.environ:
        pluginmanager.import_plugin("aliquot.conformance.plugin")
