"""Helpers of these tests keep their assertion messages."""

import pytest

pytest.register_assert_rewrite("processor_cases")
