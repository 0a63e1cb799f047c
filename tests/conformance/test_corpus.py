"""The packaged corpus: its size, its rows, and files read by path."""

from pathlib import Path

import numpy as np
import pytest

from aliquot.conformance.corpus import real

FOLDER = Path(real.__file__).parent


def test_the_packaged_corpus_is_small_and_says_where_it_comes_from() -> None:
    """At most 4 MB, with origin and licence beside it."""
    assert sum(path.stat().st_size for path in FOLDER.glob("*.npz")) <= 4_000_000
    assert "Apache-2.0" in (FOLDER / "ORIGIN.md").read_text()


@pytest.mark.parametrize(("corpus", "rows"), [("prompts_f32", 12), ("decode_bf16", 24)])
def test_rows_have_logits_and_history(corpus: str, rows: int) -> None:
    """Every row has 49,152 finite logits and the prompt that led to it."""
    found = real.rows(corpus)
    assert len(found) == rows
    assert all(r.logits.shape == (49_152,) and np.isfinite(r.logits).all() for r in found)
    assert all(r.prompt_token_ids for r in found)


def test_bfloat16_rows_have_the_ties_that_real_servers_see() -> None:
    """Some decode steps have the 50th logit equal to the 51st, some two equal maxima."""
    ordered = [np.sort(r.logits)[::-1] for r in real.rows("decode_bf16")]
    assert sum(row[49] == row[50] for row in ordered) >= 10
    assert sum(row[0] == row[1] for row in ordered) >= 3


def test_widening_is_exact() -> None:
    """A bfloat16 pattern becomes the float32 number with the same upper bits."""
    assert real.widen_bfloat16(np.array([0x3F80, 0xC000], np.uint16)).tolist() == [1.0, -2.0]


def test_a_file_is_read_by_path(tmp_path: Path) -> None:
    """Runs of steps are flattened to rows."""
    bits = np.full((2, 3, 5), 0x3F80, np.uint16)
    np.savez(tmp_path / "mine.npz", logits_bf16_bits=bits)
    found = real.rows(str(tmp_path / "mine.npz"))
    assert [r.name for r in found][:2] == ["mine[0]", "mine[1]"]
    assert (len(found), found[0].dtype, found[0].logits.tolist()) == (6, "bfloat16", [1.0] * 5)


def test_a_file_without_logits_is_refused(tmp_path: Path) -> None:
    """The error names the file, what it holds and what is allowed."""
    np.savez(tmp_path / "other.npz", probs=np.ones(3))
    with pytest.raises(real.CorpusError, match=r"other\.npz: holds probs, allowed are arrays"):
        real.rows(str(tmp_path / "other.npz"))


def test_a_missing_corpus_is_refused() -> None:
    """The error names the packaged ones."""
    with pytest.raises(real.CorpusError, match="allowed are prompts_f32, decode_bf16"):
        real.rows("nosuch")
