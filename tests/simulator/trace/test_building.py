"""The building: one seed is one building, its lines are a stream, and its queries have answers in it."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode

from freshkeeper import PatternSet, parse_query
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.engine.columns.element_columns import ColumnLines
from freshkeeper.maintenance.query.syntax.tree import TriplePattern
from freshkeeper.maintenance.streams.inputs import Inputs
from freshkeeper.maintenance.streams.timed_lines import TimedLines
from freshkeeper.simulator.trace.building import BASE, STREAM, Building, queries, readings, walk, write_building

SMALL = Building(devices=30, rooms=6, floors=2)


def test_one_seed_is_one_building() -> None:
    drawn = [list(islice(readings(SMALL, seed), 500)) for seed in (1, 1, 2)]
    asked = [list(queries(SMALL, seed, 20)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert asked[0] == asked[1] != asked[2]


def test_more_queries_and_a_longer_stream_begin_with_the_same() -> None:
    assert list(queries(SMALL, 0, 5)) == list(queries(SMALL, 0, 9))[:5]
    assert list(islice(readings(SMALL, 0), 7)) == list(islice(readings(SMALL, 0), 3_000))[:7]


def test_a_reading_is_its_kind_its_device_its_value_and_its_unit() -> None:
    silent = SMALL.model_copy(update={"announced": 0.0})
    four = list(islice(readings(silent, 0), 4))
    assert len({(each.time, each.subject) for each in four}) == 1
    assert [each.predicate.rpartition("/")[2][:-1] for each in four[1:]] == ["device", "value", "unit"]
    assert four[0].object.endswith("Reading>")
    times = [each.time for each in islice(readings(silent, 0), 4_000)]
    assert times == sorted(times)
    assert len(set(times)) == 1_000


def test_a_walk_goes_on_where_it_has_been() -> None:
    held = [("<a>", "p", "<b>"), (f"<{BASE}room/1>", "p", "x"), ("y", "p", f"<{BASE}room/1>"), ("x", "p", "<b>")]

    class First:
        def integers(self, _: int) -> int:
            return 0

    first: Any = First()
    assert walk(held, 3, first) == held[:1]  # <b> is no thing to go through
    assert walk(held[1:], 3, first) == held[1:3]


@pytest.mark.parametrize("settings", [{}, {"constants": 0.0, "patterns": 5}, {"constants": 1.0, "predicates": 0.5}])
def test_every_query_is_a_conjunction_with_answers_in_its_stream(tmp_path: Path, settings: dict[str, float]) -> None:
    building, count = SMALL.model_copy(update=settings), 40
    write_building(building, 3, 600, count, tmp_path / "b")
    texts = {file.stem: file.read_text() for file in sorted((tmp_path / "b" / "queries").iterdir())}
    assert len(texts) == count
    assert all(PatternSet.refusal(parse_query(text)) is None for text in texts.values())
    patterns, inputs = PatternSet.of(texts), Inputs()
    found: set[str] = set()
    lines = TimedLines.file(tmp_path / "b" / "readings.nq")
    inputs.add(STREAM, ColumnLines(lines, patterns.dictionary))
    for matches in patterns.over(inputs):
        found |= matches.counts().keys()
    assert found == set(texts)


def test_settings_turn_constants_into_variables() -> None:
    def constants(share: float) -> int:
        asked = queries(SMALL.model_copy(update={"constants": share, "predicates": share}), 0, 50)
        plain = [
            e.plain
            for q in asked
            for b in parse_query(q).group
            for e in b.inner
            if isinstance(e, TriplePattern) and e.plain
        ]
        return sum(isinstance(term, NamedNode | Literal) for triple in plain for term in triple)

    assert constants(0.0) == 0
    assert 0 < constants(0.5) < constants(1.0)


def test_only_a_building_is_replaced_and_only_when_told(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").touch()
    with pytest.raises(InputError, match="is there already and is no building"):
        write_building(SMALL, 0, 10, 1, other, overwrite=True)
    write_building(SMALL, 0, 10, 2, tmp_path / "b")
    with pytest.raises(InputError, match="--overwrite it"):
        write_building(SMALL, 0, 10, 1, tmp_path / "b")
    write_building(SMALL, 0, 10, 1, tmp_path / "b", overwrite=True)
    assert len(list((tmp_path / "b" / "queries").iterdir())) == 1
