"""Output that is cut off, full, slow, closed or gone: nothing counts as answered before all of it is out."""

import csv
import io
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.outputs.result_sink import ResultSink
from freshkeeper.maintenance.query.model import Form, Operator

E = "http://example.org/"
QUERY = f"""PREFIX : <{E}> SELECT ?post ?topic FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic }} }}"""
LAST = 20
FULL = 300_000
"""So many bytes fit into a file: less than the answers have, more than the state."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A query whose every evaluation answers tens of kilobytes."""
    posts = [(t * 1000 + n, f"{t}-{n}") for t in range(1, LAST + 1) for n in range(20)]
    lines = [
        f'{at}\t<{E}p{name}> <{E}topic> "{name} is, \\"so to say\\",\\n{"long " * 200}topic" .\n' for at, name in posts
    ]
    (tmp_path / "s.nq").write_text("".join(lines))
    (tmp_path / "q.rspql").write_text(QUERY)
    return tmp_path


def run(
    place: Path,
    *options: str,
    stdout: TextIOWrapper | int | None,
    longest: int = resource.RLIM_INFINITY,
    **more: Callable[..., object],
) -> CompletedProcess[str]:
    """The command with its output somewhere, unbuffered as in containers; `longest` bytes fit into a file."""
    command = [sys.executable, "-m", "freshkeeper", "run", "q.rspql", "--stream", f"{E}s=s.nq", *options]
    full = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (longest, resource.RLIM_INFINITY))
    unbuffered = os.environ | {"PYTHONUNBUFFERED": "1"}
    given: dict[str, Any] = {"cwd": place, "env": unbuffered, "preexec_fn": full} | more
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=240, check=False, **given)


def readable(text: str) -> Iterator[int | None]:
    """The instants of all lines that can be read."""
    for line in text.splitlines():
        with suppress(json.JSONDecodeError):
            yield json.loads(line)["t"]


def rows_of(text: str) -> list[list[str]]:
    """A table as most programs read it."""
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.slow
def test_what_a_full_disk_cut_off_is_written_again_on_a_line_of_its_own(place: Path) -> None:
    with (place / "out").open("a") as out:
        done = run(place, "--state", "state", stdout=out, longest=FULL)
    assert (done.returncode, done.stderr) == (2, "freshkeeper: standard output cannot be written: File too large\n")
    assert not (place / "out").read_text().endswith("\n")
    with (place / "out").open("a") as out:
        assert run(place, "--state", "state", stdout=out).returncode == 0
    assert list(readable((place / "out").read_text())) == [1000 * t for t in range(1, LAST + 1)]


@pytest.mark.slow
def test_a_table_that_was_cut_off_goes_on_without_another_head(place: Path) -> None:
    for longest in (FULL, resource.RLIM_INFINITY):
        with (place / "out").open("a") as out:
            run(place, "--state", "state", "--format", "csv", stdout=out, longest=longest)
    head, *rows = rows_of((place / "out").read_text())
    torn = [row for row in rows if row[-1] != "1.0"]
    assert (head, len(torn), torn[0][-1][-1]) == (["t", "post", "topic", "fresh"], 1, "#")
    _, *expected = rows_of(run(place, "--format", "csv", stdout=subprocess.PIPE).stdout)
    assert sorted(map(tuple, expected)) == sorted({tuple(row) for row in rows if row not in torn})


@pytest.mark.slow
def test_a_pipe_that_does_not_block_gets_all_of_it(place: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        text: list[str] = []
        slow = threading.Thread(target=lambda: text.extend(iter(partial(pipe.read, 100), "")))
        slow.start()
        done = run(place, stdout=writing)
        os.close(writing)
        slow.join()
    assert (done.returncode, done.stderr) == (0, "")
    assert list(readable("".join(text))) == [1000 * t for t in range(1, LAST + 1)]


@pytest.mark.slow
def test_closed_output_is_one_line_and_a_reader_that_went_away_is_none(place: Path) -> None:
    done = run(place, stdout=None, preexec_fn=partial(os.close, 1))
    assert done.returncode == 2
    assert done.stderr.startswith("freshkeeper: standard output is closed: ")
    assert done.stderr.count("\n") == 1
    reading, writing = os.pipe()
    os.close(reading)
    done = run(place, "--state", "state", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
    done = run(place, "--state", "state", stdout=subprocess.PIPE)
    assert next(readable(done.stdout)) == 1000  # nobody has had it


@pytest.mark.slow
def test_what_is_meant_for_closed_standard_error_is_not_among_the_answers(place: Path) -> None:
    options = ("--source", f"{E}unused=http://localhost:1/")
    assert "unused" in run(place, *options, stdout=subprocess.PIPE).stderr
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "freshkeeper", "run", "missing.rspql"]
    done = subprocess.run(command, cwd=place, stdout=subprocess.PIPE, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout) == (2, "")


def result(t: int, *texts: str) -> Result:
    """One evaluation with some answers."""
    rows = [(ox.Literal(text), None) for text in texts]
    return Result(t, Form.SELECT, Operator.RSTREAM, ("a", "b"), rows, None, {})


def written(path: Path, form: str, *results: Result, **more: bool) -> bytes:
    """Bytes that a delivery to the end of a file leaves there."""
    with path.open("a") as file:
        out = ResultSink.begin(file, form, **more)
        for one in results:
            out.put(one)
    return path.read_bytes()


TEXTS = st.lists(st.text(st.sampled_from('ab,"\n\r#ü'), max_size=5), min_size=1, max_size=3)


@given(TEXTS, TEXTS, st.data())
def test_wherever_a_table_is_cut_off_its_next_rows_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, first: list[str], second: list[str], data: DataObject
) -> None:
    path = tmp_path_factory.mktemp("csv") / "out"
    head, whole = written(path, "csv", result(0)), written(path, "csv", result(1000, *first), resumed=True)
    cut = data.draw(st.integers(len(head), len(whole) - 1))
    path.write_bytes(whole[:cut])
    text = written(path, "csv", result(2000, *second), resumed=True, partial=True).decode(errors="replace")
    assert rows_of(text)[-len(second) :] == [["2000", each, "", "1.0"] for each in second]


@pytest.mark.parametrize("form", ["ndjson", "sparql-json"])
@given(TEXTS, TEXTS, st.data())
def test_wherever_a_line_is_cut_off_the_next_one_can_be_read(
    form: str, tmp_path_factory: pytest.TempPathFactory, first: list[str], second: list[str], data: DataObject
) -> None:
    path = tmp_path_factory.mktemp("lines") / "out"
    whole = written(path, form, result(1000, *first))
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    text = written(path, form, result(2000, *second), resumed=True, partial=data.draw(st.booleans()))
    assert b"\n\n" not in text
    assert json.loads(text.splitlines()[-1])["t"] == 2000


def test_a_pipe_is_mended_only_after_a_run_that_may_have_been_cut_off() -> None:
    for torn, expected in ((False, b""), (True, b"\n")):
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as pipe:
            with os.fdopen(writing, "w") as file:
                ResultSink.begin(file, "ndjson", resumed=True, partial=torn)
            assert pipe.read() == expected


def test_a_new_file_has_a_head_also_where_the_run_goes_on(tmp_path: Path) -> None:
    assert written(tmp_path / "new", "csv", result(1), resumed=True, partial=True) == b"t,a,b,fresh\n"
    with closing(io.TextIOWrapper(io.BytesIO())) as memory:
        ResultSink.begin(memory, "csv", resumed=True, partial=True)
        assert memory.buffer.getvalue() == b'#"\n'
