"""Compiled loops are there before a test counts its seconds."""

import numpy as np
import pyoxigraph as ox
import pytest

from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import columns_of
from freshkeeper.maintenance.engine.columns.id_rows import IdRows
from freshkeeper.maintenance.engine.native.ndjson import JsonAnswers, JsonTerms
from freshkeeper.maintenance.engine.r2s import FreshnessColumns
from freshkeeper.maintenance.streams.batch import Batch


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Every loop runs once."""
    dictionary, node = Dictionary(), ox.NamedNode("http://e/a")
    columns_of(Batch([1], [ox.Quad(node, node, ox.Literal(1))]), dictionary)
    freshness = FreshnessColumns(np.array([0.5]), np.array([1]))
    rows = IdRows(np.array([[0]]), dictionary)
    list(JsonAnswers(JsonTerms(dictionary)).chunks(rows, ("x",), freshness, b"", b""))
