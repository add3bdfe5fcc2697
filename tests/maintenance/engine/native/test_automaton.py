"""The automaton against brute force: every solution that is there now and was not there before, at every element."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.engine.automaton.automaton import Automaton, MatchedSolutions

MOST = 10_000
Row: TypeAlias = tuple[int, int, int]
Patterns: TypeAlias = Sequence[Row]
IDS = st.integers(0, 2)
TRIPLES = st.tuples(IDS, IDS, IDS)
POSITIONS = st.one_of(IDS, st.integers(-3, -1))
PATTERNS = st.tuples(POSITIONS, POSITIONS, POSITIONS)


def numbered(patterns: list[Row]) -> Patterns:
    """Variables numbered from 0 on, as the automaton wants them."""
    numbers: dict[int, int] = {}

    def number(v: int) -> int:
        return -1 - numbers.setdefault(v, len(numbers)) if v < 0 else v

    return tuple((number(s), number(p), number(o)) for s, p, o in dict.fromkeys(patterns))


CONJUNCTIONS = st.lists(PATTERNS, min_size=1, max_size=3).map(numbered)


ADDED = st.tuples(st.just("add"), CONJUNCTIONS)
REMOVED = st.tuples(st.just("remove"), IDS)


def bind(patterns: Patterns, triples: Patterns) -> tuple[int, ...] | None:
    """What the variables are where each pattern has this triple; nothing where it cannot."""
    known: dict[int, int] = {}
    for pattern, triple in zip(patterns, triples, strict=True):
        for wanted, id in zip(pattern, triple, strict=True):
            if (known.setdefault(wanted, id) if wanted < 0 else wanted) != id:
                return None
    return tuple(known[-1 - v] for v in range(len(known)))


def solutions(patterns: Patterns, content: dict[tuple[int, int, int], int]) -> set[tuple[int, ...]]:
    """All solutions over these triples: a set, as each binds all variables."""
    found = (bind(patterns, triples) for triples in product(content, repeat=len(patterns)))
    return {row for row in found if row is not None}


class Plain:
    """A window as a dictionary; all solutions anew at every instant."""

    def __init__(self, reach: int) -> None:
        self.reach = reach
        self.last: dict[Row, int] = {}
        self.forms: dict[int, Patterns] = {}
        self.before: dict[int, set[tuple[int, ...]]] = {}

    def add(self, form: int, patterns: Patterns) -> None:
        self.forms[form], self.before[form] = patterns, solutions(patterns, self.last)

    def remove(self, form: int) -> None:
        del self.forms[form], self.before[form]

    def instant(self, now: int, triples: list[Row]) -> list[tuple[int, int, tuple[int, ...]]]:
        """The new solutions of one instant."""
        self.last |= dict.fromkeys(triples, now)
        self.last = {triple: last for triple, last in self.last.items() if last > now - self.reach}
        found = []
        for form, patterns in self.forms.items():
            all_now = solutions(patterns, self.last)
            found += [(now, form, row) for row in all_now - self.before[form]]
            self.before[form] = all_now
        return found


def decoded(
    found: MatchedSolutions, forms: Mapping[int, Patterns], clock: Ints, first: int = 0
) -> list[tuple[int, int, tuple[int, ...]]]:
    """Solutions as (time, form, values)."""
    taken, at = [], 0
    for element, form in zip(found.element.tolist(), found.form.tolist(), strict=True):
        width = len({v for pattern in forms[form] for v in pattern if v < 0})
        taken.append((int(clock[element - first]), form, tuple(found.value[at : at + width].tolist())))
        at += width
    assert at == len(found.value)
    return taken


def columns(triples: Sequence[Row]) -> tuple[Ints, Ints, Ints]:
    s, p, o = np.array(triples, np.int64).reshape(-1, 3).T
    return s, p, o


def run(
    automaton: Automaton,
    forms: Mapping[int, Patterns],
    stream: list[tuple[int, tuple[int, int, int]]],
    sizes: list[int] | tuple[()] = (),
) -> list[tuple[int, int, tuple[int, ...]]]:
    """All elements, (time, triple), in batches of these sizes and then one more; solutions sorted within an instant."""
    taken, at = [], 0
    clock = np.array([time for time, _ in stream], np.int64)
    for size in (*sizes, len(stream)):
        part = slice(at, at + size)
        if clock[part].size:
            found = automaton.read(clock[part], *columns([triple for _, triple in stream[part]]), first=at)
            taken += decoded(found, forms, clock, 0)
        at += size
    assert taken == sorted(taken, key=lambda each: each[0])
    return sorted(taken)


def over_time(gaps: list[int], triples: list[Row]) -> list[tuple[int, tuple[int, int, int]]]:
    """A stream whose times have these gaps."""
    return list(zip(np.cumsum(gaps).tolist(), triples, strict=False))


def expected(
    forms: dict[int, Patterns], stream: list[tuple[int, tuple[int, int, int]]], reach: int
) -> list[tuple[int, int, tuple[int, ...]]]:
    plain, found = Plain(reach), []
    for form, patterns in forms.items():
        plain.add(form, patterns)
    for now in dict.fromkeys(time for time, _ in stream):
        found += plain.instant(now, [triple for time, triple in stream if time == now])
    return sorted(found)


@given(st.lists(CONJUNCTIONS, min_size=1, max_size=4), st.lists(TRIPLES, max_size=15), st.integers(1, 6))
def test_over_the_last_triples_it_finds_what_brute_force_finds(
    conjunctions: list[Patterns], triples: list[Row], reach: int
) -> None:
    automaton, forms = Automaton(reach, MOST), dict(enumerate(conjunctions))
    for form, patterns in forms.items():
        automaton.add(form, patterns)
    stream = list(enumerate(triples))
    assert run(automaton, forms, stream) == expected(forms, stream, reach)


@given(
    st.lists(CONJUNCTIONS, min_size=1, max_size=4),
    st.lists(TRIPLES, min_size=15, max_size=15),
    st.lists(st.integers(0, 3), max_size=15),
    st.integers(1, 6),
)
def test_over_time_an_instant_is_taken_whole(
    conjunctions: list[Patterns],
    triples: list[Row],
    gaps: list[int],
    reach: int,
) -> None:
    automaton, forms = Automaton(reach, MOST), dict(enumerate(conjunctions))
    for form, patterns in forms.items():
        automaton.add(form, patterns)
    stream = over_time(gaps, triples)
    assert run(automaton, forms, stream) == expected(forms, stream, reach)


@given(CONJUNCTIONS, st.lists(TRIPLES, max_size=15), st.lists(st.integers(0, 5), max_size=5), st.integers(1, 6))
def test_batches_of_any_size_make_the_same(
    patterns: Patterns, triples: list[Row], sizes: list[int], reach: int
) -> None:
    whole, parts, stream = Automaton(reach, MOST), Automaton(reach, MOST), list(enumerate(triples))
    whole.add(0, patterns)
    parts.add(0, patterns)
    assert run(whole, {0: patterns}, stream) == run(parts, {0: patterns}, stream, sizes)


@given(
    st.lists(
        st.one_of(TRIPLES, st.tuples(st.just("add"), CONJUNCTIONS), st.tuples(st.just("remove"), IDS)), max_size=25
    ),
    st.integers(1, 8),
)
def test_conjunctions_come_and_go_while_it_runs(steps: Sequence[tuple[Any, ...]], reach: int) -> None:
    automaton, plain, taken, wanted = Automaton(reach, MOST), Plain(reach), [], []
    forms: dict[int, Patterns] = {}
    for now, step in enumerate(steps):
        if step[0] == "add":
            form = next(n for n in range(len(forms) + 1) if n not in forms)
            forms[form] = step[1]
            automaton.add(form, step[1])
            plain.add(form, step[1])
        elif step[0] == "remove":
            if step[1] in forms:
                del forms[step[1]]
                automaton.remove(step[1])
                plain.remove(step[1])
        else:
            found = automaton.read(np.array([now]), *columns([step]))
            taken += sorted(decoded(found, forms, np.array([now])))
            wanted += sorted(plain.instant(now, [step]))
    assert taken == wanted


@pytest.mark.parametrize(
    ("patterns", "triples", "made"),
    [
        pytest.param([(-1, 5, 6), (-1, 7, 8)], [(1, 5, 6), (2, 7, 8), (1, 7, 8)], [(2, (1,))], id="q1 of Figure 2"),
        pytest.param(
            [(-1, 5, 6), (-1, 7, 8), (9, 7, -1)], [(1, 5, 6), (1, 7, 8), (9, 7, 1)], [(2, (1,))], id="q2 of Figure 2"
        ),
        pytest.param([(-1, -2, -1)], [(1, 5, 6), (2, 5, 2)], [(1, (2, 5))], id="subject and object are one"),
        pytest.param([(-1, -1, -1)], [(3, 3, 3), (3, 3, 4)], [(0, (3,))], id="all are one"),
        pytest.param([(-1, 5, -2), (-2, 5, -1)], [(4, 5, 4)], [(0, (4, 4))], id="one triple for both patterns"),
        pytest.param(
            [(-1, 5, -2), (-3, 6, -4)],
            [(1, 5, 2), (3, 6, 4), (7, 6, 8)],
            [(1, (1, 2, 3, 4)), (2, (1, 2, 7, 8))],
            id="no join",
        ),
        pytest.param([(1, 5, 2)], [(1, 5, 2), (1, 5, 2)], [(0, ())], id="no variable"),
        pytest.param(
            [(-1, -2, -3), (-4, -2, -3)],
            [(1, 5, 2), (3, 5, 2)],
            [(0, (1, 5, 2, 1)), (1, (1, 5, 2, 3)), (1, (3, 5, 2, 1)), (1, (3, 5, 2, 3))],
            id="predicates and objects are equal",
        ),
    ],
)
def test_worked_examples(patterns: list[Row], triples: list[Row], made: list[tuple[int, tuple[int, ...]]]) -> None:
    automaton = Automaton(100, MOST)
    automaton.add(0, patterns)
    assert [(t, values) for t, _, values in run(automaton, {0: patterns}, list(enumerate(triples)))] == made


def test_a_triple_that_comes_again_stays_longer_and_makes_nothing() -> None:
    automaton, patterns = Automaton(3, MOST), [(-1, 5, 6), (-1, 7, 8)]
    automaton.add(0, patterns)
    stream = [(0, (1, 5, 6)), (2, (1, 5, 6)), (4, (1, 7, 8)), (5, (1, 7, 8))]
    assert run(automaton, {0: patterns}, stream) == [(4, 0, (1,))]


def test_what_one_instant_renews_joins_with_what_it_brings_before() -> None:
    """(1 5 6) is over at 3, but comes again at 3: the triple before it already joins with it, and it is not new."""
    automaton, patterns = Automaton(3, MOST), [(-1, 5, 6), (-1, 7, 8)]
    automaton.add(0, patterns)
    automaton.add(1, [(-1, 5, 6)])
    stream = [(0, (1, 5, 6)), (3, (1, 7, 8)), (3, (1, 5, 6))]
    assert run(automaton, {0: patterns, 1: [(-1, 5, 6)]}, stream) == [(0, 1, (1,)), (3, 0, (1,))]


def test_a_form_with_too_many_solutions_is_cut_and_the_others_go_on() -> None:
    automaton = Automaton(100, most=5)
    automaton.add(0, [(-1, 5, -2), (-3, 5, -4)])
    automaton.add(1, [(-1, 5, -2)])
    found = automaton.read(np.arange(4), *columns([(n, 5, n) for n in range(4)]))
    assert automaton.cut == [0]
    assert len(automaton) == 1
    by_form = {form: found.element[found.form == form].tolist() for form in (0, 1)}
    assert by_form == {0: [0, 1, 1, 1, 2, 2, 2, 2, 2], 1: [0, 1, 2, 3]}  # 1 + 3 + 5, and not the 7 of the fourth


def test_many_solutions_and_many_triples_find_room() -> None:
    automaton = Automaton(1_000, 100_000)
    automaton.add(0, [(-1, 5, -2), (-3, 5, -2)])
    found = automaton.read(np.arange(300), *columns([(n, 5, 0) for n in range(300)]))
    assert np.bincount(found.element).tolist() == [2 * n + 1 for n in range(300)]


def test_the_ids_that_are_kept_are_marked() -> None:
    automaton, live = Automaton(2, MOST), np.zeros(10, np.bool_)
    automaton.add(0, [(-1, 5, 9)])
    automaton.read(np.arange(3), *columns([(1, 2, 3), (1, 2, 4), (0, 2, 4)]))
    automaton.mark(live)
    assert np.flatnonzero(live).tolist() == [0, 1, 2, 4, 5, 9]
