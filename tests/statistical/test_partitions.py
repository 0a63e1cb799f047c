"""Partitions: cells as promised, none repeated, none empty of meaning."""

import numpy as np
from laws import logits_of, softmax

from aliquot.statistical import partitions
from aliquot.statistical.power import PARTITIONS


def test_mass_rank_cells_have_equal_mass():
    """Eight rank cells of a law without heavy tokens hold an eighth each, up to one token."""
    law = softmax(logits_of(10_000))
    masses = np.bincount(partitions.mass_rank(law, 8).cells, weights=law)
    assert np.abs(masses - 1 / 8).max() <= law.max()


def test_mass_rank_orders_by_probability():
    """A token in a later rank cell is no likelier than one in an earlier cell."""
    law = softmax(logits_of(1_000))
    cells = partitions.mass_rank(law, 4).cells
    assert all(law[cells == i].min() >= law[cells == i + 1].max() for i in range(3))


def test_octaves_halve_the_tail():
    """The tokens in octave k and beyond have at most mass 2^-k together."""
    law = softmax(logits_of(10_000))
    octave = partitions.mass_octave(law).cells
    assert all(law[octave >= k].sum() <= 2.0**-k for k in range(1, 20))


def test_tail_cuts_take_as_much_as_they_may():
    """The next likelier token would carry each tail cut over its mass."""
    law = softmax(logits_of(10_000))
    cuts = partitions.tail_cuts(law)[:10]
    assert all(
        law[cut.cells == 1].sum() + law[cut.cells == 0].min() > 2.0 ** -(k + 1)
        for k, cut in enumerate(cuts)
    )


def test_head_tokens_stand_alone():
    """Each of the likeliest tokens has a cell of its own."""
    law = softmax(logits_of(500))
    cells = partitions.head_identity(law, head=10).cells
    assert cells[np.argsort(-law)[:10]].tolist() == list(range(10))


def test_id_partitions():
    """Modulo, block and slice partitions of six ids."""
    made = [partitions.id_modulo(6, 2), partitions.id_block(6, 4), partitions.id_slice(6, 3)]
    assert [part.cells.tolist() for part in made] == [
        [0, 1, 0, 1, 0, 1],
        [0, 0, 0, 0, 1, 1],
        [0, 0, 1, 1, 2, 2],
    ]


def test_repeats_are_left_out():
    """On two tokens all partitions coincide and one is kept."""
    assert len(partitions.default_partitions([0.9, 0.1])) == 1


def test_no_partition_of_a_single_token():
    """A law with one possible token cannot be partitioned."""
    assert partitions.default_partitions([0.0, 1.0, 0.0]) == ()


def test_planned_number_of_partitions():
    """The weights of the default partitions sum to the number that the power theory uses."""
    made = partitions.default_partitions(softmax(logits_of(50_000)))
    missing = sum(f"tail 2^-{k}" not in [p.name for p in made] for k in range(1, 25)) / 24
    assert round(sum(part.weight for part in made) + missing, 9) == PARTITIONS
