"""Terms as ids: what the store calls equal is one id, and what nobody keeps is freed."""

from collections.abc import Sequence
from dataclasses import dataclass

import drawn_terms
import numpy as np
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from terms import text_of

from freshkeeper.maintenance.base.arrays import Bools, Ints
from freshkeeper.maintenance.engine.columns import dictionary as subject
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import Columns, columns_of
from freshkeeper.maintenance.engine.evaluator import Term
from freshkeeper.maintenance.engine.stored_literals import stored_quads, stored_term
from freshkeeper.maintenance.streams.batch import Batch


def fresh(first: int, last: int) -> list[Term]:
    """IRIs that differ."""
    return [ox.NamedNode(f"http://e/{n}") for n in range(first, last)]


@given(st.lists(st.lists(drawn_terms.terms, max_size=12), max_size=4))
def test_two_terms_are_one_id_where_the_store_has_one_term(drawn: list[list[Term]]) -> None:
    dictionary = Dictionary()
    ids = [id for terms in drawn for id in dictionary.encode(terms).tolist()]
    stored = [stored_term(term) for terms in drawn for term in terms]
    assert [dictionary.term(id) for id in ids] == stored
    assert dictionary.terms(np.array(ids, np.int64)) == stored
    assert len(set(ids)) == len(set(stored)) == len(dictionary)
    assert [dictionary.id(term) for term in stored] == ids
    assert all(0 <= id < dictionary.width for id in ids)


@given(st.lists(st.tuples(st.integers(0, 9), drawn_terms.quads), max_size=12))
def test_columns_are_the_elements_as_the_store_has_them(drawn: list[tuple[int, ox.Quad]]) -> None:
    batch = Batch([time for time, _ in drawn], [quad for _, quad in drawn])
    columns = columns_of(batch, Dictionary())
    assert columns.times.tolist() == batch.times
    assert [q.triple for q in columns.quads] == [q.triple for q in stored_quads(batch.quads)]
    assert (len(columns), columns.ordered) == (len(batch), batch.ordered)
    assert columns.part(1, 3).quads == columns.quads[1:3]
    assert columns.followed_by(batch.part(0, 2)).quads == [*columns.quads, *columns.quads[:2]]


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> Dictionary:
    """A dictionary that is swept from its fourth term on."""
    monkeypatch.setattr(subject, "SWEEP_FROM_SPELLINGS", 3)
    return Dictionary()


@dataclass(eq=False)
class Keeper:
    """Has some ids."""

    ids: Ints

    def mark(self, live: Bools) -> None:
        live[self.ids] = True


KEEPERS: list[Keeper] = []


def kept(dictionary: Dictionary, terms: Sequence[Term]) -> list[int]:
    """The ids of some terms, for ever."""
    KEEPERS.append(Keeper(dictionary.encode(terms)))
    dictionary.hold(KEEPERS[-1].mark)
    found: list[int] = KEEPERS[-1].ids.tolist()
    return found


def test_who_keeps_ids_keeps_them_as_long_as_it_lives(swept: Dictionary) -> None:
    keeper = Keeper(swept.encode(fresh(0, 5)))
    swept.hold(keeper.mark)
    swept.sweep()
    assert len(swept) == 5
    del keeper
    swept.encode(fresh(5, 20))
    swept.sweep()
    assert len(swept) == 0


def test_a_sweep_frees_what_nobody_keeps_and_renumbers_nothing(swept: Dictionary) -> None:
    first = kept(swept, fresh(0, 2))
    swept.encode(fresh(2, 10))
    swept.sweep()
    assert (len(swept), swept.sweeps, swept.width) == (2, 1, 10)
    assert [swept.term(id) for id in first] == fresh(0, 2)
    again = swept.encode(fresh(0, 10)).tolist()
    assert (again[:2], sorted(again), swept.width) == (first, list(range(10)), 10)
    assert swept.terms(np.array(again)) == fresh(0, 10)


def test_a_sweep_waits_until_there_is_twice_as_much(swept: Dictionary) -> None:
    kept(swept, fresh(0, 6))
    swept.sweep()
    swept.encode(fresh(6, 12))
    swept.sweep()
    assert (len(swept), swept.sweeps) == (12, 1)
    swept.encode(fresh(12, 13))
    swept.sweep()
    assert (len(swept), swept.sweeps) == (6, 2)


def test_columns_keep_their_ids_as_long_as_somebody_has_them(swept: Dictionary) -> None:
    quads = [ox.Quad(ox.NamedNode(text_of(term)), ox.NamedNode("http://e/p"), term) for term in fresh(0, 9)]
    columns: Columns | None = columns_of(Batch([1] * 9, quads), swept)
    assert columns is not None
    columns = columns.part(2, 4)
    swept.sweep()
    assert len(swept) == 3
    assert [quad.triple for quad in columns.quads] == [quad.triple for quad in quads[2:4]]
    swept.encode(fresh(20, 30))
    columns = None
    swept.sweep()
    assert len(swept) == 0


def test_another_spelling_goes_with_its_term(swept: Dictionary) -> None:
    one = ox.Literal("01", datatype=ox.NamedNode(drawn_terms.XSD + "integer"))
    old = swept.id(one)
    swept.encode(fresh(0, 5))
    swept.sweep()
    swept.encode(fresh(5, 7))
    assert swept.term(swept.id(one)) == swept.term(swept.id(ox.Literal(1))) == ox.Literal(1)
    assert swept.id(one) == swept.id(ox.Literal(1))
    assert 0 <= old < swept.width
