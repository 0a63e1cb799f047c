"""Take docs/report.png: the head of a red report in headless Chromium.

`python benchmarks/report_picture.py`
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from aliquot.conformance.run import run
from aliquot.reports.write import write_all

PICTURE = Path(__file__).parents[1] / "docs" / "report.png"
FAULT, SIZE = "fault:order-topp-first", "1180,1180"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def main() -> None:
    """Run a fault, write its report and photograph the page."""
    browser = shutil.which("chromium")
    if browser is None:
        raise SystemExit("report_picture: needs chromium, on Debian: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        page = write_all(run(FAULT, tier="pr", seed=0, workers=2), Path(folder))["index.html"]
        subprocess.run(
            [
                browser, *FLAGS, f"--user-data-dir={folder}/profile", f"--window-size={SIZE}",
                f"--screenshot={PICTURE}", page.as_uri(),
            ],
            check=True, capture_output=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
