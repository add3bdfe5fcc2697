"""Answers written from columns are the bytes that the writer of terms writes."""

import io
from dataclasses import replace
from typing import Any

import drawn_terms
import numpy as np
import pyoxigraph as ox
import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from freshkeeper.maintenance.engine.columns import dictionary as dictionaries
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.id_rows import IdRows
from freshkeeper.maintenance.engine.evaluator import Term
from freshkeeper.maintenance.engine.native import ndjson
from freshkeeper.maintenance.engine.r2s import FreshnessColumns, Result
from freshkeeper.maintenance.outputs.formats import NdJson
from freshkeeper.maintenance.outputs.result_sink import ResultSink
from freshkeeper.maintenance.query.model import Form, Operator

NAMES = ("o", "größe", "x1")
Answer = tuple[list[Term | None], float, int]
probabilities = st.one_of(
    st.floats(0, 1),
    st.integers(0, 128).map(lambda n: n / 128),  # exactly between two numbers of six places, often
    st.integers(0, 1_000_000).map(lambda n: n / 1_000_000),
    st.integers(0, 2_000).map(lambda n: n / 10_000_000),
)
answers = st.tuples(
    st.lists(st.one_of(st.none(), drawn_terms.terms), min_size=3, max_size=3),
    probabilities,
    st.one_of(st.just(-1), st.integers(0, 10**15)),
)


def result_of(drawn: list[Answer], variables: int, dictionary: Dictionary, certain: bool) -> Result:
    """One evaluation with these answers."""
    columns = [[row[n] for row, _, _ in drawn] for n in range(variables)]
    ids = [np.array([-1 if term is None else dictionary.id(term) for term in column], np.int64) for column in columns]
    values = np.array(ids, np.int64).reshape(variables, len(drawn))
    freshness = None
    if not certain:
        shares, ages = [share for _, share, _ in drawn], [age for _, _, age in drawn]
        freshness = FreshnessColumns(np.array(shares, np.float64), np.array(ages, np.int64))
    rows, windows = IdRows(values, dictionary), {"http://e/w": (0, 10)}
    return Result(
        5, Form.SELECT, Operator.RSTREAM, NAMES[:variables], rows, freshness, windows, "q" * variables, 2, variables
    )


def of_terms(result: Result) -> Result:
    """The same as rows of terms."""
    freshness = None if result.freshness is None else list(result.freshness)
    return replace(result, answers=list(result.answers), freshness=freshness)


@settings(max_examples=examples(200))
@given(st.lists(st.lists(answers, max_size=6), max_size=3), st.integers(0, 3), st.booleans())
@example([[([], share / 10_000_000, share) for share in range(3_000)]], 0, False)
@example([[([], share / 128, share) for share in range(129)]], 0, False)
def test_lines_are_those_of_the_writer_of_terms(drawn: list[list[Answer]], variables: int, certain: bool) -> None:
    dictionary = Dictionary()
    mine, theirs = NdJson(), NdJson()
    for each in drawn:
        result = result_of(each, variables, dictionary, certain)
        assert [*mine.lines(result)] == [*theirs.lines(of_terms(result))]


class Reluctant(io.RawIOBase):
    """Takes no more than a few bytes at a time, sometimes none."""

    def __init__(self) -> None:
        self.taken, self.times = bytearray(), 0

    def write(self, text: Any) -> int | None:
        """A part of it."""
        self.times += 1
        part = bytes(text[: self.times % 50])
        self.taken += part
        return len(part)


@settings(max_examples=examples(50))
@given(st.lists(answers, max_size=20), st.integers(0, 3), st.sampled_from([1, 100, 1 << 18]))
def test_bytes_go_out_whole_however_they_are_cut(drawn: list[Answer], variables: int, size: int) -> None:
    result = result_of(drawn, variables, Dictionary(), False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ndjson, "CHUNK", size)
        out = Reluctant()
        ResultSink(out, NdJson()).put(result)
    assert out.taken.decode() == "".join(NdJson().lines(of_terms(result)))


def test_what_cannot_be_written_fails_before_a_byte_is_out() -> None:
    rows = IdRows(np.array([[0] * 9_999]), dictionary := Dictionary())
    dictionary.id(ox.Literal("a"))
    freshness = FreshnessColumns(np.append(np.ones(9_998), 1.5), np.zeros(9_999, np.int64))
    out = Reluctant()
    with pytest.raises(AssertionError, match="not between 0 and 1"):
        ResultSink(out, NdJson()).put(Result(5, Form.SELECT, Operator.RSTREAM, ("x",), rows, freshness))
    assert not out.times


def test_texts_of_ids_that_were_freed_are_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionaries, "SWEEP_FROM_SPELLINGS", 3)
    dictionary = Dictionary()
    mine = NdJson()
    for n in range(20):
        row: list[Term | None] = [ox.Literal(f"{n} {m}") for m in range(3)]
        result = result_of([(row, 1.0, -1)], 3, dictionary, True)
        assert [*mine.lines(result)] == [*NdJson().lines(of_terms(result))]
        del result
        dictionary.sweep()
    assert dictionary.sweeps > 3
    assert dictionary.width < 30
