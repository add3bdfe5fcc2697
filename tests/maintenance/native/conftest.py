"""Compiled loops are there before a test counts its seconds."""

import pyoxigraph as ox
import pytest

from freshkeeper.maintenance.native.columns import columns_of
from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.streams.batch import Batch


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Every loop runs once."""
    dictionary, node = Dictionary(), ox.NamedNode("http://e/a")
    columns_of(Batch([1], [ox.Quad(node, node, ox.Literal(1))]), dictionary)
