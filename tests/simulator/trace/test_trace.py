"""Traces are read and written without loss, and what is wrong with one is said in one line."""

import gzip
import os
import tempfile
import time
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from same_traces import same

from freshkeeper.maintenance.base.errors import InputError, TimeError
from freshkeeper.simulator.trace.file_tables import Labels, integers_or_words
from freshkeeper.simulator.trace.trace import (
    FORMATS,
    Changes,
    ChangeSchedule,
    Edges,
    Trace,
    TraceArrivals,
    differs_first,
    read_trace,
    write_trace,
)
from freshkeeper.simulator.trace.workload import Workload, generate

PROJECT = Path(__file__).parents[3]
DATA = Path(os.environ.get("FRESHKEEPER_DATA", PROJECT.parent / "shared" / "data"))
CASES: dict[str, Any] = yaml.safe_load((PROJECT / "tests" / "cases" / "traces" / "errors.yaml").read_text())


def small() -> Trace:
    """Two SNs and two SRs, all kinds of arrivals."""
    return Trace(
        TraceArrivals(np.array([0, 5, 5, 10]), np.array([0, 1, 0, 1], np.int32)),
        Edges(np.array([0, 0, 1], np.int32), np.array([0, 1, 0], np.int32)),
        Changes(np.array([1, 3]), np.array([0, 1], np.int32), np.array([7, 8])),
        np.array(["a", "b"], object),
        np.array(["x", "y"], object),
    )


def lay_out(directory: Path, files: dict[str, str | None]) -> None:
    directory.mkdir(exist_ok=True)
    for name, content in (CASES["good"] | files).items():
        if content is not None:
            (directory / name).write_text(content)


words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6).filter(str.strip)
odd = st.sampled_from(["007", "1.0", "1e3", "-0", "nan", "NULL"])
ids = st.one_of(words, st.integers(-(10**17), 10**17).map(str), odd)


@st.composite
def labels(draw: st.DrawFn) -> Labels:
    kind = draw(st.sampled_from([ids, st.integers(-(10**17), 10**17).map(str)]))
    return integers_or_words(pa.array(draw(st.lists(kind, min_size=1, max_size=6, unique=True))))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    sns, srs = draw(labels()), draw(labels())
    sn = st.integers(0, sns.size - 1)
    sr = st.integers(0, srs.size - 1)
    everyone = [(i % sns.size, i % srs.size) for i in range(max(sns.size, srs.size))]
    edges = list(dict.fromkeys(everyone + draw(st.lists(st.tuples(sn, sr), max_size=12))))
    arrived = [edges[0][0], *draw(st.lists(sn, max_size=12))]
    changed = draw(st.lists(sr, max_size=12))
    times = st.integers(0, 2**60)
    return Trace(
        TraceArrivals(np.sort(np.array([draw(times) for _ in arrived])), np.array(arrived, np.int32)),
        Edges(np.array([e[0] for e in edges], np.int32), np.array([e[1] for e in edges], np.int32)),
        Changes(
            np.sort(np.array([draw(times) for _ in changed], np.int64)),
            np.array(changed, np.int32),
            draw(values(len(changed))),
        ),
        sns,
        srs,
        draw(st.none() | st.lists(st.integers(1, 10**9), min_size=srs.size, max_size=srs.size).map(intervals)),
    )


@st.composite
def values(draw: st.DrawFn, size: int) -> Labels | None:
    if not size or draw(st.booleans()):
        return None
    if draw(st.booleans()):
        return np.array(draw(st.lists(st.integers(-(2**53), 2**53), min_size=size, max_size=size)), np.int64)
    if draw(st.booleans()):
        floats = st.floats(allow_nan=False, allow_infinity=False)
        return np.array([0.5, *draw(st.lists(floats, min_size=size - 1, max_size=size - 1))])
    return np.array(["1.10", *draw(st.lists(ids | st.just(""), min_size=size - 1, max_size=size - 1))], object)


def intervals(means: list[int]) -> ChangeSchedule:
    """Without phases: whatever changed fits it."""
    return ChangeSchedule(np.array(means))


@settings(max_examples=examples(120))
@given(trace=traces(), form=st.sampled_from(FORMATS))
def test_what_is_written_is_read(trace: Trace, form: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        write_trace(trace, Path(directory), form)
        again = read_trace(Path(directory))
    assert same(again, trace)
    assert again.edges.repeated == 0


@pytest.mark.parametrize("form", FORMATS)
def test_reading_gives_the_same_numbers_from_every_format(tmp_path: Path, form: str) -> None:
    write_trace(small(), tmp_path, form)
    again = read_trace(tmp_path)
    assert again.sn_labels.tolist() == ["a", "b"]
    assert again.sr_labels.tolist() == ["x", "y"]
    assert again.arrivals.sn.tolist() == [0, 1, 0, 1]
    assert again.arrivals.sn.dtype == again.edges.sr.dtype == again.changes.sr.dtype == np.int32
    assert again.changes.value is not None
    assert again.changes.value.tolist() == [7, 8]


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_trace_gives_the_same_bytes(tmp_path: Path, form: str) -> None:
    for name in ("one", "two"):
        write_trace(small(), tmp_path / name, form)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_equal_traces_may_number_differently() -> None:
    trace = small()
    arrivals = TraceArrivals(trace.arrivals.t_ms, 1 - trace.arrivals.sn)
    edges = Edges(1 - trace.edges.sn, trace.edges.sr)
    turned = replace(trace, arrivals=arrivals, edges=edges, sn_labels=trace.sn_labels[::-1])
    assert same(turned, trace)
    assert not same(replace(trace, edges=edges), trace)


def test_ids_are_integers_if_all_are_written_as_such(tmp_path: Path) -> None:
    lay_out(tmp_path, {"arrivals.csv": "t_ms,sn\n0,10\n5,9\n", "edges.csv": "sn,sr\n10,01\n9,2\n-3,x\n"})
    trace = read_trace(tmp_path)
    assert trace.sn_labels.tolist() == [-3, 9, 10]
    assert trace.sr_labels.tolist() == ["01", "2", "x", "y"]


def test_integers_and_words_meet_across_formats(tmp_path: Path) -> None:
    lay_out(tmp_path, {"arrivals.csv": None, "edges.csv": "sn,sr\n7,x\nb,x\n"})
    parquet.write_table(pa.table({"t_ms": [0, 1], "sn": [7, 8], "more": [1.5, 2.5]}), tmp_path / "arrivals.parquet")
    trace = read_trace(tmp_path)
    assert trace.sn_labels.tolist() == ["7", "8", "b"]
    assert trace.arrivals.sn.tolist() == [0, 1]


def test_versions_are_no_numbers(tmp_path: Path) -> None:
    lay_out(tmp_path, {"changes.csv": "t_ms,sr,value\n1,x,1.1\n3,x,1.10\n"})
    value = read_trace(tmp_path).changes.value
    assert value is not None
    assert value.tolist() == ["1.1", "1.10"]


def test_repeated_edges_are_dropped_and_counted(tmp_path: Path) -> None:
    lay_out(tmp_path, {"edges.csv": "sn,sr\nb,x\na,x\nb,x\nb,x\n"})
    edges = read_trace(tmp_path).edges
    assert (edges.sn.tolist(), edges.sr.tolist(), edges.repeated) == ([1, 0], [0, 0], 2)


def test_what_is_alone_is_legal(tmp_path: Path) -> None:
    """An SN without edges, one that never arrives, an SR without edges, one that never changes."""
    lay_out(
        tmp_path,
        {
            "arrivals.csv": "t_ms,sn\n0,a\n1,loner\n",
            "edges.csv": "sn,sr\na,x\nabsent,steady\n",
            "changes.csv": "t_ms,sr\n1,unneeded\n",
        },
    )
    trace = read_trace(tmp_path)
    assert trace.sn_labels.tolist() == ["a", "absent", "loner"]
    assert trace.sr_labels.tolist() == ["steady", "unneeded", "x"]


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_need_change(tmp_path: Path, form: str) -> None:
    trace = replace(small(), changes=Changes(np.empty(0, np.int64), np.empty(0, np.int32)))
    write_trace(trace, tmp_path, form)
    assert same(read_trace(tmp_path), trace)


@pytest.mark.parametrize("name", CASES["cases"])
def test_an_error_is_one_line_that_says_what_would_be_right(tmp_path: Path, name: str) -> None:
    case = CASES["cases"][name]
    lay_out(tmp_path, case["files"])
    with pytest.raises(InputError) as caught:
        read_trace(tmp_path)
    message = str(caught.value)
    assert fnmatch(message, case["message"].format(dir=tmp_path).replace("[", "[[]")), message
    assert "\n" not in message
    assert caught.value.exit_code == 2


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere is no directory; a trace is one with the tables"):
        read_trace(tmp_path / "nowhere")


def test_a_table_that_is_no_file(tmp_path: Path) -> None:
    lay_out(tmp_path, {"edges.csv": None})
    (tmp_path / "edges.csv").mkdir()
    with pytest.raises(InputError, match=r"edges\.csv cannot be read: .*; it must be a readable file"):
        read_trace(tmp_path)


def test_time_that_goes_backwards_has_its_own_error(tmp_path: Path) -> None:
    lay_out(tmp_path, CASES["cases"]["unsorted arrivals"]["files"])
    with pytest.raises(TimeError):
        read_trace(tmp_path)


@pytest.mark.parametrize("kept", [8, 0.5, -3])
def test_a_truncated_gzip(tmp_path: Path, kept: float) -> None:
    write_trace(small(), tmp_path, "csv.gz")
    path = tmp_path / "edges.csv.gz"
    whole = gzip.compress(b"sn,sr\na,x\n" + b"b,x\n" * 10_000)
    path.write_bytes(whole[: int(kept * len(whole)) if isinstance(kept, float) else kept])
    with pytest.raises(InputError, match=r"edges\.csv\.gz cannot be read: .*; it is cut off or no gzip"):
        read_trace(tmp_path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"t_ms": [0.0, 5.0], "sn": ["a", "b"]}, "t_ms is of type double; it must hold integers, in milliseconds"),
        ({"t_ms": [0, None], "sn": ["a", "b"]}, "row 2: t_ms is missing; every row needs one"),
        ({"t_ms": [0, 5], "sn": ["a", None]}, "row 2: sn is missing; every row needs one"),
        ({"t_ms": [0, 5], "sn": [1.0, 2.0]}, "sn is of type double; it must hold strings or integers"),
        ({"t_ms": [0, 5], "sn": [["a"], ["b"]]}, "sn is of type list.*; it must hold strings or integers"),
    ],
)
def test_errors_of_parquet(tmp_path: Path, columns: dict[str, object], message: str) -> None:
    lay_out(tmp_path, {"arrivals.csv": None})
    parquet.write_table(pa.table(columns), tmp_path / "arrivals.parquet")
    with pytest.raises(InputError, match=message):
        read_trace(tmp_path)


def test_a_trace_is_not_written_over_another_by_accident(tmp_path: Path) -> None:
    write_trace(small(), tmp_path, "csv")
    with pytest.raises(InputError, match=r"arrivals\.csv is there already"):
        write_trace(small(), tmp_path, "parquet")
    write_trace(small(), tmp_path, "parquet", overwrite=True)
    assert same(read_trace(tmp_path), small())
    with pytest.raises(InputError, match="'parquett' is no format of a trace; did you mean 'parquet'"):
        write_trace(small(), tmp_path, "parquett")


def test_arrivals_between_are_left_open() -> None:
    trace = small()
    assert trace.arrivals_between(0, 5).t_ms.tolist() == [5, 5]
    assert trace.arrivals_between(-1, 4).sn.tolist() == [0]
    assert len(trace.arrivals_between(10, 20)) == 0
    changes = trace.changes_between(1, 3)
    assert changes.value is not None
    assert (changes.sr.tolist(), changes.value.tolist()) == ([1], [8])


@given(trace=traces(), step=st.integers(1, 2**61))
def test_batches_are_all_arrivals_step_by_step(trace: Trace, step: int) -> None:
    last = int(trace.arrivals.t_ms[-1])
    step = max(step, (last - trace.t0) // 50)
    instants = range(trace.t0 + step, last + step + 1, step)
    batches = list(trace.batches(instants))
    assert np.array_equal(np.concatenate([batch.t_ms for _, batch in batches]), trace.arrivals.t_ms)
    assert [instant for instant, _ in batches] == list(instants)
    for instant, batch in batches[1:]:
        assert np.array_equal(batch.sn, trace.arrivals_between(instant - step, instant).sn)


@given(intervals=st.lists(st.integers(1, 40), min_size=1, max_size=4), data=st.data())
def test_changes_and_schedule_tell_the_same_or_it_is_said_where_not(intervals: list[int], data: st.DataObject) -> None:
    """Against all instants one by one; what lies outside of the arrivals is not compared."""
    phases = [data.draw(st.integers(0, 60)) for _ in intervals]
    planned = {(t, sr) for sr, each in enumerate(intervals) for t in range(phases[sr] % each, 121, each)}
    instants = st.tuples(st.integers(0, 120), st.integers(0, len(intervals) - 1))
    recorded = sorted(planned ^ data.draw(st.sets(instants, max_size=3)))
    trace = replace(
        small(),
        arrivals=TraceArrivals(np.array([20, 100]), np.array([0, 1], np.int32)),
        changes=Changes(np.array([t for t, _ in recorded], np.int64), np.array([sr for _, sr in recorded], np.int32)),
        sr_labels=np.arange(len(intervals)),
        schedule=ChangeSchedule(np.array(intervals), np.array(phases)),
    )
    different = sorted((t, sr) for t, sr in planned.symmetric_difference(recorded) if 20 < t <= 100)
    found = differs_first(trace)
    assert (found is None) == (not different)
    if found is not None:
        assert found[::-1] in different
        assert found[1] == different[0][0]


def test_a_trace_whose_schedule_is_of_other_changes_is_not_read(tmp_path: Path) -> None:
    trace = generate(Workload(duration_ms=2_000), 0)
    write_trace(trace, tmp_path)
    assert same(read_trace(tmp_path), trace)
    (tmp_path / "changes.csv").write_text("t_ms,sr\n")
    at, sr = next((at, sr) for at, sr in zip(trace.changes.t_ms, trace.changes.sr, strict=True) if at > trace.t0)
    with pytest.raises(InputError, match=f"changes and schedule say different things, first of the sr {sr} at {at};"):
        read_trace(tmp_path)


def test_a_trace_without_arrivals_has_no_t0() -> None:
    nobody = replace(small(), arrivals=TraceArrivals(np.empty(0, np.int64), np.empty(0, np.int32)))
    with pytest.raises(InputError, match="no arrivals, so no t0"):
        _ = nobody.t0


def test_a_year_of_julia_packages() -> None:
    source = DATA / "julia-2023"
    if not source.is_dir():
        pytest.skip("julia-2023 is not there; FRESHKEEPER_DATA names the directory that has it")
    begin = time.process_time()
    trace = read_trace(source)
    assert time.process_time() - begin < 2
    assert (len(trace.arrivals), len(trace.changes)) == (18_862, 20_031)
    assert len(trace.edges) + trace.edges.repeated == 165_674
    assert (trace.sns, trace.srs, trace.edges.repeated) == (18_855, 5_185, 65)
