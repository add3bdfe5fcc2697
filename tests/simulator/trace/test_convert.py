"""Foreign data become a trace by naming columns and units."""

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from pydantic import ValidationError
from same_traces import same

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.simulator.trace.convert import Conversion, convert, derived
from freshkeeper.simulator.trace.trace import Trace, read_trace, write_trace

CASES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "cases" / "traces" / "conversions.yaml").read_text(encoding="utf-8")
)
FILES = {
    "tweets.csv": "when,topic,text\n2024-05-01T12:00:05Z,cats,hi\n2024-05-01T14:00:00+02:00,dogs,yo\n",
    "mentions.csv": "topic,user\ncats,ann\ncats,bob\ncats,ann\ndogs,bob\n",
    "followers.csv": "at,user,n\n1714564800,ann,10\n1714564860,ann,10\n1714564920.5,ann,11\n1714564810,bob,3\n",
}
NOON = 1_714_564_800_000
MAPPING: dict[str, Any] = {
    "arrivals": {"file": "tweets.csv", "time": "when", "unit": "iso", "sn": "topic"},
    "edges": {"file": "mentions.csv", "sn": "topic", "sr": "user"},
    "changes": {
        "file": "followers.csv",
        "time": "at",
        "unit": "s",
        "sr": "user",
        "value": "n",
        "observations": True,
    },
}


def converted(directory: Path, files: dict[str, str] | None = None, **mapping: dict[str, object]) -> Trace:
    """The example, with other files or another mapping of a table."""
    for name, content in (FILES | (files or {})).items():
        (directory / name).write_text(content)
    tables = {name: MAPPING[name] | mapping.get(name, {}) for name in MAPPING}
    return convert(Conversion.model_validate(tables), directory)


def test_rows_are_sorted_edges_made_distinct_and_changes_derived(tmp_path: Path) -> None:
    trace = converted(tmp_path)
    assert trace.arrivals.t_ms.tolist() == [NOON, NOON + 5000]
    assert trace.sn_labels[trace.arrivals.sn].tolist() == ["dogs", "cats"]
    assert (len(trace.edges), trace.edges.repeated) == (3, 1)
    assert trace.changes.t_ms.tolist() == [NOON + 120_500]
    assert trace.sr_labels[trace.changes.sr].tolist() == ["ann"]
    assert trace.changes.value is not None
    assert trace.changes.value.tolist() == [11]


def test_a_converted_trace_can_be_written_and_read(tmp_path: Path) -> None:
    trace = converted(tmp_path)
    write_trace(trace, tmp_path / "trace")
    assert same(read_trace(tmp_path / "trace"), trace)


def test_changes_may_be_recorded_as_such(tmp_path: Path) -> None:
    trace = converted(tmp_path, changes={"observations": False})
    assert len(trace.changes) == 4
    assert np.all(np.diff(trace.changes.t_ms) >= 0)
    assert converted(tmp_path, changes={"observations": False, "value": None}).changes.value is None


def test_jsonl_is_read(tmp_path: Path) -> None:
    rows = [{"when": NOON + 7, "topic": "cats", "more": [1]}, {"when": NOON, "topic": "dogs", "more": []}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    trace = converted(tmp_path, {"tweets.jsonl": lines}, arrivals={"file": "tweets.jsonl", "unit": "ms"})
    assert trace.arrivals.t_ms.tolist() == [NOON, NOON + 7]


def test_jsonl_with_dates_is_read(tmp_path: Path) -> None:
    lines = '{"when": "2024-05-01T12:00:00", "topic": "cats"}\n{"when": "2024-05-01T12:00:01Z", "topic": "dogs"}\n'
    trace = converted(tmp_path, {"tweets.jsonl": lines}, arrivals={"file": "tweets.jsonl"})
    assert trace.arrivals.t_ms.tolist() == [NOON, NOON + 1000]


def test_parquet_with_timestamps_is_read(tmp_path: Path) -> None:
    instants = pa.array([NOON * 1000 + 1999, NOON * 1000]).cast(pa.timestamp("us", "Europe/Berlin"))
    parquet.write_table(pa.table({"when": instants, "topic": ["cats", "dogs"]}), tmp_path / "tweets.parquet")
    trace = converted(tmp_path, arrivals={"file": "tweets.parquet"})
    assert trace.arrivals.t_ms.tolist() == [NOON, NOON + 1]


@pytest.mark.parametrize(
    ("unit", "written", "t_ms"),
    [
        ("ms", "12", 12),
        ("ms", "12.9", 12),
        ("s", "12", 12_000),
        ("s", "1672546944.129", 1_672_546_944_129),
        ("s", "1.5e3", 1_500_000),
        ("iso", "2024-05-01", NOON - 12 * 3_600_000),
        ("iso", "2024-05-01T12:00", NOON),
        ("iso", "2024-05-01 12:00:00.25", NOON + 250),
        ("iso", "2024-05-01T12:00:00.123456789Z", NOON + 123),
        ("iso", "2024-05-01T17:30:00+05:30", NOON),
        ("iso", "2024-05-01T07:00:00-0500", NOON),
    ],
)
def test_units_of_time(tmp_path: Path, unit: str, written: str, t_ms: int) -> None:
    files = {"tweets.csv": f"when,topic\n{written},cats\n"}
    assert converted(tmp_path, files, arrivals={"unit": unit}).arrivals.t_ms.tolist() == [t_ms]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.integers(0, 2)), unique_by=lambda row: row[:2]))
def test_a_change_is_where_an_observation_differs_from_the_last(rows: list[tuple[int, int, int]]) -> None:
    expected = []
    seen: dict[int, int] = {}
    for t_ms, sr, value in sorted(rows):
        if sr in seen and seen[sr] != value:
            expected.append((t_ms, sr, value))
        seen[sr] = value
    t_ms_, sr_, value_ = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    changes = derived(t_ms_, sr_.astype(np.int32), value_)
    assert changes.value is not None
    found = list(zip(changes.t_ms.tolist(), changes.sr.tolist(), changes.value.tolist(), strict=True))
    assert sorted(found) == expected
    assert np.all(np.diff(changes.t_ms) >= 0)


@pytest.mark.parametrize("name", CASES)
def test_an_error_is_one_line_that_says_what_would_be_right(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    with pytest.raises(InputError) as caught:
        converted(tmp_path, case.get("files"), **case.get("mapping", {}))
    message = str(caught.value)
    assert fnmatch(message, case["message"].format(dir=tmp_path).replace("[", "[[]")), message
    assert "\n" not in message


def test_a_mapping_with_a_typo() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Conversion.model_validate(MAPPING | {"changes": MAPPING["changes"] | {"units": "ms"}})
