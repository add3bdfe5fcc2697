"""How many examples hypothesis draws where a property needs its own number: all for `make test`, a fifth before."""

from hypothesis import settings

USUAL = 100
"""What the profile of `make test` draws; tests/conftest.py chooses it."""


def examples(whole: int) -> int:
    """So many, or the share of them that the profile draws."""
    return max(1, whole * settings().max_examples // USUAL)
