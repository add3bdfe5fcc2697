"""The algebra that the engine is compared with, on examples worked by hand from SPARQL 1.1's definitions."""

from dataclasses import replace

import pytest
from algebra import (
    Aggregate,
    Bag,
    Bind,
    Data,
    Exists,
    Fact,
    Filter,
    Group,
    Minus,
    Op,
    Optional,
    Path,
    Select,
    Service,
    Term,
    Triple,
    Union,
    Values,
    Var,
    Within,
    selected,
)

A, B, P, Q = (Term("iri", name) for name in "abpq")
ONE, TWO, THREE = (Term("int", n) for n in (1, 2, 3))
X, Y, Z, N = map(Var, "xyzn")
FACTS = frozenset({(A, P, ONE), (A, P, TWO), (B, P, TWO), (A, Q, B)})


def all_of(*elements: object, facts: frozenset[Fact] = FACTS, **more: object) -> Bag:
    """The solutions of a query over some facts, in an order that can be written down."""
    query = Select(Group(elements), **more)  # type: ignore[arg-type]
    return sorted(
        selected(query, Data(facts, {"w": facts}, {}, {"r": facts}), facts), key=lambda row: sorted(row.items())
    )


def test_a_join_keeps_what_agrees_and_counts_every_way() -> None:
    assert all_of(Triple(X, Q, Y), Triple(Y, P, N)) == [{"n": TWO, "x": A, "y": B}]
    assert all_of(Values((X,), ((A,), (A,))), Values((X,), ((A,), (None,)))) == [{"x": A}] * 4


def test_optional_looks_at_both_sides_in_its_own_filter_and_not_in_a_group_of_its_own() -> None:
    start, later = Values((N,), ((ONE,), (THREE,))), (Triple(X, P, Y), Filter(Op("<", (Y, N))))
    three = [{"n": THREE, "x": x, "y": y} for x, y in ((A, ONE), (A, TWO), (B, TWO))]
    assert all_of(start, Optional(Group(later))) == [{"n": ONE}, *three]
    assert all_of(start, Optional(Group((Group(later),)))) == [{"n": ONE}, {"n": THREE}]


def test_an_optional_within_an_optional_is_evaluated_by_itself_first() -> None:
    inner = Optional(Group((Triple(X, P, ONE),)))
    found = all_of(Values((X,), ((B,),)), Optional(Group((Triple(A, Q, Y), inner))))
    assert found == [{"x": B}]  # the inner one binds ?x to :a, which does not agree with :b


def test_minus_takes_away_only_what_shares_a_variable() -> None:
    assert all_of(Triple(X, P, ONE), Minus(Group((Triple(Y, P, ONE),)))) == [{"x": A}]
    assert all_of(Triple(X, P, ONE), Minus(Group((Triple(X, P, TWO),)))) == []


def test_exists_is_asked_with_the_values_of_a_solution() -> None:
    inner = Group((Triple(X, P, Z), Filter(Op("=", (Z, N)))))
    assert all_of(Values((X, N), ((A, ONE), (B, ONE))), Filter(Exists(inner))) == [{"x": A, "n": ONE}]
    assert all_of(Values((X, N), ((A, ONE), (B, ONE))), Filter(Exists(inner, True))) == [{"x": B, "n": ONE}]


def test_a_path_counts_every_way_and_shows_no_middle() -> None:
    assert all_of(Triple(X, Path("|", P, P), ONE)) == [{"x": A}] * 2
    assert all_of(Triple(X, Path("/", Q, P), Y)) == [{"x": A, "y": TWO}]
    assert all_of(Triple(Var("_:b"), P, TWO)) == [{}, {}]


def test_a_condition_without_a_value_is_decided_by_its_other_side() -> None:
    wrong, yes, no = Op("<", (Z, ONE)), Op("<", (ONE, TWO)), Op("<", (TWO, ONE))
    for expression, passes in [
        (Op("||", (wrong, yes)), True),
        (Op("||", (wrong, no)), False),
        (Op("!", (Op("&&", (wrong, no)),)), True),
        (Op("!", (Op("&&", (wrong, yes)),)), False),
        (Op("COALESCE", (wrong, yes)), True),
        (Op("BOUND", (Z,)), False),
    ]:
        assert bool(all_of(Filter(expression))) is passes, expression
    assert all_of(Bind(Op("+", (Z, ONE)), N)) == [{}]


def test_groups_of_nothing() -> None:
    none, count = Triple(X, P, B), (Aggregate("COUNT"), N)
    assert all_of(none, items=(count,)) == [{"n": Term("int", 0)}]
    assert all_of(none, items=(X, count), by=(X,)) == []
    assert all_of(none, items=((Aggregate("SUM", X), N), (Aggregate("MIN", X), Y))) == [{"n": Term("int", 0)}]


def test_set_functions_over_groups() -> None:
    shown = (X, (Aggregate("SUM", Y), N), (Aggregate("MAX", Y), Z))
    assert all_of(Triple(X, P, Y), items=shown, by=(X,)) == [
        {"n": TWO, "x": B, "z": TWO},
        {"n": THREE, "x": A, "z": TWO},
    ]
    assert all_of(Triple(X, P, Y), items=((Aggregate("SUM", Y, True), N),)) == [{"n": THREE}]
    assert all_of(Triple(X, P, Y), items=((Aggregate("SUM", X), N), (Aggregate("COUNT", Z), Y))) == [
        {"y": Term("int", 0)}
    ]
    assert all_of(Triple(X, P, Y), items=(X,), by=(X,), having=Op(">", (Aggregate("COUNT"), ONE))) == [{"x": A}]


@pytest.mark.parametrize("block", [Within("WINDOW", Term("iri", "w"), Group()), Service(Term("iri", "r"), Group())])
def test_windows_and_remotes_are_asked_for_what_they_hold(block: Within | Service) -> None:
    inside = Group((Triple(X, Q, Y),))
    held = replace(block, group=inside)
    assert all_of(held, facts=FACTS) == [{"x": A, "y": B}]
    assert all_of(Union((Group((held,)), inside))) == [{"x": A, "y": B}] * 2
    free = Within("WINDOW", Z, Group((Minus(inside),)))
    assert all_of(free) == [{"z": Term("iri", "w")}]


def test_a_sub_query_shows_what_it_names_once_and_in_order() -> None:
    assert all_of(Select(Group((Triple(X, P, Y),)), (X,), True, order=(X,), limit=1)) == [{"x": A}]
