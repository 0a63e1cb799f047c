"""Fixtures of the tests of the reports."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import report_browser


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[report_browser.Page]:
    """One headless Chromium for all tests of the page; missing, it fails them."""
    profile: Path = tmp_path_factory.mktemp("chromium")
    with report_browser.Page(profile) as tab:
        yield tab


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a browser, which the `browser` session runs."""
    for item in items:
        if "page" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
