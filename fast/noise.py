"""Uniform noise: counter-based for requests with a seed, a generator for the others."""

from torch import Tensor

_GOLDEN = -0x61C8864680B583EB
_MIX_A = -0x40A7B892E31B1A47
_MIX_B = -0x6B2FB644ECCEEE15
_UNIT = 2.0**-53


def _mix(word: Tensor) -> Tensor:
    word = (word ^ _shift(word, 30)) * _MIX_A
    word = (word ^ _shift(word, 27)) * _MIX_B
    return word ^ _shift(word, 31)


def _shift(word: Tensor, bits: int) -> Tensor:
    return (word >> bits) & ((1 << (64 - bits)) - 1)


def hashed_words(seed: Tensor, position: Tensor) -> Tensor:
    """64 random bits for each (seed, position), both int64, broadcast.

    The SplitMix64 stream of Steele, Lea and Flood (2014) at `position`, started at a mixed seed, so that every
    bit of the seed counts (SEED07) and neighbouring seeds have unrelated streams (SEED06).
    """
    return _mix(_mix(seed + _GOLDEN) + (position + 1) * _GOLDEN)


def unit_interval(words: Tensor) -> Tensor:
    """Float64 in [0, 1) with 53 random bits from int64 words."""
    return _shift(words, 11).double() * _UNIT
