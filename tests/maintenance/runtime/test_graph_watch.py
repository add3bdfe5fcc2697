"""Files of static graphs that are written anew while queries run; torn ones leave the graph as it was."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshkeeper.maintenance.engine.native.moving_query import MovingQuery
from freshkeeper.maintenance.runtime.query_set import read_queries
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session

E = "http://example.org/"
POSTS = "".join(f"{1000 * n}\t<{E}p{n}> <{E}topic> <{E}jazz> .\n" for n in range(1, 7))
OLD, NEW = f"<{E}jazz> <{E}kind> <{E}old> .\n", f"<{E}jazz> <{E}kind> <{E}new> .\n"
HEAD = f"PREFIX : <{E}> SELECT ?post ?kind FROM NAMED :kinds FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT1S]"
WINDOW, KIND = "WINDOW :w { ?post :topic ?topic }", "GRAPH :kinds { ?topic :kind ?kind }"
MERGED = f"PREFIX : <{E}> SELECT ?post ?kind FROM :kinds FROM WINDOW :w ON :s [RANGE PT1S STEP PT1S]"
QUERIES = {
    "native": f"{HEAD} {{ {WINDOW} {KIND} }}",
    "solved": f"{HEAD} {{ {WINDOW} {KIND.replace(':kind ?', '(:kind|:sort) ?')} }}",
    "snapshot": f"{HEAD} {{ {WINDOW} OPTIONAL {{ {KIND} }} }}",
    "merged": f"{MERGED} {{ ?post :topic ?topic . ?topic :kind ?kind }}",
    "service": f"{HEAD} {{ {WINDOW} {KIND} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}",
}
"""Joined by ids, with a part that the library solves, by snapshots, in one graph with a window, and with SERVICE."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "posts.nq").write_text(POSTS)
    (tmp_path / "kinds.nt").write_text(OLD)
    (tmp_path / "blog.ttl").write_text(f"PREFIX : <{E}> :jazz :discussedBy :ann . :ann :followers 1 .")
    (tmp_path / "blog.yaml").write_text(f"data: blog.ttl\nvolatile: {E}followers\n")
    return tmp_path


def session(place: Path, queries: dict[str, str]) -> tuple[Session, list[str]]:
    config = config_of(
        {
            "queries": queries,
            "streams": {f"{E}s": str(place / "posts.nq")},
            "graphs": {f"{E}kinds": str(place / "kinds.nt")},
            "sources": {f"{E}blog": str(place / "blog.yaml")} if "service" in queries else {},
        }
    )
    heard: list[str] = []
    read = read_queries(config, lambda name, error: pytest.fail(f"{name}: {error}"))
    return Session(config, read, heard.append), heard


def kinds(results: Iterator[object], count: int) -> list[tuple[int, list[str]]]:
    """What the next evaluations say that jazz is."""
    found = []
    for _, result in zip(range(count), results, strict=False):
        found.append((result.t, sorted(str(row[1]).rpartition("/")[2].rstrip(">") for row in result.answers)))  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_a_file_written_anew_is_taken_between_evaluations(place: Path, name: str) -> None:
    one, heard = session(place, {name: QUERIES[name]})
    results, file = one.results(), place / "kinds.nt"
    assert kinds(results, 1) == [(1000, ["old"])]
    file.write_text(OLD + NEW)
    one.watch.check()  # it has changed, and may be changing still
    assert kinds(results, 1) == [(2000, ["old"])]
    one.watch.check()
    assert kinds(results, 1) == [(3000, ["new", "old"])]
    file.write_text(NEW)
    one.watch.check()
    one.watch.check()
    assert kinds(results, 5) == [(4000, ["new"]), (5000, ["new"]), (6000, ["new"])]
    assert heard == [
        f"{file} has changed: the graph has 2 triples now", f"{file} has changed: the graph has 1 triple now",
    ]  # fmt: skip


@pytest.mark.parametrize("torn", [NEW + NEW[:20], f"{NEW}<{E}jazz> <{E}ki\n", NEW + '"x" <urn:a> <urn:b> .\n'])
def test_a_torn_file_leaves_the_graph_as_it_was_and_is_told_of_once(place: Path, torn: str) -> None:
    one, heard = session(place, {"native": QUERIES["native"]})
    results, file = one.results(), place / "kinds.nt"
    file.write_text(torn)
    for _ in range(4):
        one.watch.check()
    assert kinds(results, 2) == [(1000, ["old"]), (2000, ["old"])]
    (line,) = heard
    assert line.startswith(f"the graph of {file} stays as it was: {file}, line 2: ")
    file.write_text(NEW)
    one.watch.check()
    one.watch.check()
    assert kinds(results, 1) == [(3000, ["new"])]


def test_a_file_that_is_gone_leaves_the_graph_and_one_that_comes_back_is_taken(place: Path) -> None:
    one, heard = session(place, {"native": QUERIES["native"]})
    results, file = one.results(), place / "kinds.nt"
    file.unlink()
    for _ in range(3):
        one.watch.check()
    assert kinds(results, 1) == [(1000, ["old"])]
    assert heard == [f"{file} is gone: the graph stays as it was"]
    (place / "next.nt").write_text(NEW)
    (place / "next.nt").replace(file)
    one.watch.check()
    one.watch.check()
    assert kinds(results, 1) == [(2000, ["new"])]


def test_queries_with_one_sub_query_share_its_solutions_before_and_after_a_change(place: Path) -> None:
    texts = {"one": QUERIES["native"], "two": QUERIES["native"].replace("PT1S S", "PT2S S")}
    one, _ = session(place, texts)

    def static() -> set[int]:
        return {id(query.answering._join.inputs[-1]) for query in one.runtime.queries.values()}  # type: ignore[union-attr]

    assert len(static()) == 1
    results = one.results()
    before, _ = static(), kinds(results, 2)
    (place / "kinds.nt").write_text(NEW)
    one.watch.check()
    one.watch.check()
    kinds(results, 2)
    assert len(static()) == 1
    assert static() != before


def test_windows_that_move_with_every_element_take_the_new_graph_with_the_next_batch(place: Path) -> None:
    text = QUERIES["native"].replace(" STEP PT1S", "").replace("SELECT", "REGISTER RSTREAM <urn:o> AS SELECT")
    one, _ = session(place, {"moving": f"{text}"})
    (query,) = one.runtime.queries.values()
    assert isinstance(query, MovingQuery)
    query.most = 2
    results = one.results()
    assert kinds(results, 2) == [(1000, ["old"]), (2000, ["old"])]
    (place / "kinds.nt").write_text(NEW)
    one.watch.check()
    one.watch.check()
    assert kinds(results, 2) == [(3000, ["new"]), (4000, ["new"])]


@pytest.mark.slow
def test_a_run_follows_its_files(place: Path) -> None:
    (place / "query.rspql").write_text(QUERIES["native"])
    command = [sys.executable, "-m", "freshkeeper", "run", "query.rspql", "--stream", f"{E}s=-", "--watch", "50ms"]
    command += ["--graph", f"{E}kinds=kinds.nt"]
    with subprocess.Popen(
        command, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stderr is not None
        lines = POSTS.splitlines(keepends=True)
        run.stdin.write("".join(lines[:2]))
        run.stdin.flush()
        first = json.loads(run.stdout.readline())
        (place / "next.nt").write_text(NEW)
        (place / "next.nt").replace(place / "kinds.nt")
        while "has changed" not in (said := run.stderr.readline()):
            assert said, "the run ended"
        run.stdin.write("".join(lines[2:]))
        run.stdin.close()
        rest = [json.loads(line) for line in run.stdout]
    assert [answer["bindings"]["kind"]["value"] for answer in first["answers"]] == [f"{E}old"]
    assert [[answer["bindings"]["kind"]["value"] for answer in each["answers"]] for each in rest] == [[f"{E}new"]] * 5
