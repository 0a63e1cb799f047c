"""What docs/fast.md shows can be run."""

import re
from pathlib import Path

import torch

PAGE = Path(__file__).parents[2] / "docs" / "fast.md"


def test_example_runs():
    """The example draws one id of the vocabulary and appends it to the request's list."""
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    names = {"logits": torch.zeros(1, 128_256)}
    exec(example, names)
    assert names["output_ids"] == names["ids"].flatten().tolist()
    assert 0 <= names["output_ids"][0] < 128_256
