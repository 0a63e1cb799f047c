"""Hypothesis made to find the same examples anywhere; loads no framework, as the suites are collected with it."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from hypothesis.internal.conjecture.providers import HypothesisProvider


def without_constants() -> AbstractContextManager[Any]:
    """Hypothesis without the constants that it mixes in from the sources around it.

    With them the examples would depend on the folder and on what is imported, and a cache be written there.
    """
    return patch.object(HypothesisProvider, "_maybe_draw_constant", lambda *_, **__: None)
