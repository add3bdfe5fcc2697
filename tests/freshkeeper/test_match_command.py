"""`freshkeeper match` and `freshkeeper trace building`, as somebody types them."""

import json
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest
from calls import Said

from freshkeeper.__main__ import run_command
from freshkeeper.maintenance.base.errors import FreshkeeperError

STREAM = "http://example.org/building/readings"
HOT = "SELECT * { STREAM <urn:s> [TRIPLES 10] { ?x <urn:in> ?room . ?x <urn:is> <urn:hot> } }"
LINES = "1\t<urn:a> <urn:in> <urn:k> .\n2\t<urn:a> <urn:is> <urn:hot> .\n3\t<urn:b> <urn:is> <urn:hot> .\n"


def call(*words: int | Path | str) -> Said:
    """Run a command; raise its error."""
    out, err = TextIOWrapper(BytesIO()), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        run_command([str(word) for word in words])
    out.seek(0)
    return Said(0, out.read(), err.getvalue())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of two queries, and a stream."""
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "hot.cqels").write_text(HOT)
    (tmp_path / "queries" / "any.cqels").write_text(HOT.replace("<urn:hot>", "?what"))
    (tmp_path / "s.nq").write_text(LINES)
    return tmp_path


def test_lines_name_the_query_and_what_it_found(place: Path) -> None:
    done = call("match", place / "queries", "--stream", f"urn:s={place / 's.nq'}")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [(line["t"], line["query"]) for line in lines] == [(2, "any"), (2, "hot")]
    (answer,) = lines[1]["answers"]
    assert {name: term["value"] for name, term in answer["bindings"].items()} == {"room": "urn:k", "x": "urn:a"}
    assert "3 triples, 2 queries, 2 solutions" in done.err


def test_a_building_is_drawn_and_matched(tmp_path: Path) -> None:
    call("trace", "building", tmp_path / "b", "--triples", 500, "--queries", 30, "--set", "devices=20", "--seed", 4)
    done = call("match", tmp_path / "b" / "queries", "--stream", f"{STREAM}={tmp_path / 'b' / 'readings.nq'}")
    found = Counter(json.loads(line)["query"] for line in done.out.splitlines())
    assert set(found) == {f"q{n:02}" for n in range(30)}
    assert "500 triples, 30 queries" in done.err


def test_a_query_with_too_many_solutions_is_left_out_and_said(place: Path) -> None:
    (place / "queries" / "cross.cqels").write_text("SELECT * { STREAM <urn:s> [TRIPLES 9] { ?a ?b ?c . ?d ?e ?f } }")
    done = call("match", place / "queries", "--stream", f"urn:s={place / 's.nq'}", "--most", 3)
    assert "cross is left out from here on: one triple makes more than 3 solutions" in done.err
    assert [json.loads(line)["query"] for line in done.out.splitlines()].count("hot") == 1


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("SELECT * { STREAM <urn:s> [TRIPLES 10] { ?x ", (), "third.cqels: line 1, column"),
        (HOT.replace("SELECT *", "SELECT ?x"), (), "third: the query is not a conjunction .* it does not select all"),
        (HOT.replace("urn:s", "urn:t"), (), "nothing feeds the stream <urn:t>.*did you mean 'urn:s'"),
        (HOT, ("--on-error", "skp"), "--on-error skp: did you mean 'skip'"),
        (HOT, ("--delay", "soon"), "--delay: "),
    ],
)
def test_mistakes_are_one_line(place: Path, text: str, words: tuple[str, ...], said: str) -> None:
    (place / "queries" / "third.cqels").write_text(text)
    with pytest.raises(FreshkeeperError, match=said):
        call("match", place / "queries", "--stream", f"urn:s={place / 's.nq'}", *words)


def test_settings_of_a_building_are_checked(tmp_path: Path) -> None:
    with pytest.raises(FreshkeeperError, match="there is no key 'devises'; did you mean 'devices'"):
        call("trace", "building", tmp_path / "b", "--set", "devises=3")
