"""The verbs run and explain: files in, lines out, errors with line and column."""

import io
import json
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from commands import freshkeeper
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal
from tables import table_of
from terms import solutions

from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError
from freshkeeper.maintenance.base.unread_results import Unread
from freshkeeper.maintenance.engine.evaluator import LazyRows
from freshkeeper.maintenance.engine.r2s import Freshness, Result
from freshkeeper.maintenance.outputs.formats import NdJson, writer
from freshkeeper.maintenance.query.model import Form, Operator
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session

E = "http://example.org/"
POSTS = "".join(f"{at}\t<{E}{p}> <{E}topic> <{E}{t}> .\n" for at, p, t in [(1000, "p1", "jazz"), (2000, "p2", "rock")])
BLOG = """PREFIX : <http://example.org/> :jazz :discussedBy :ann . :rock :discussedBy :ann, :bob .
:ann :followers 1 . :bob :followers 2 ."""
REACH = f"""PREFIX : <{E}>
REGISTER RSTREAM :reach AS
SELECT ?topic (SUM(?n) AS ?reach) FROM NAMED WINDOW :posts ON :stream [RANGE PT4S STEP PT1S]
WHERE {{ WINDOW :posts {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}
GROUP BY ?topic"""
PLAIN = REACH.split("WHERE")[0].replace("(SUM(?n) AS ?reach)", "") + "WHERE { WINDOW :posts { ?post :topic ?topic } }"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A stream, a source and queries in a directory."""
    (tmp_path / "posts.nq").write_text(POSTS)
    (tmp_path / "blog.ttl").write_text(BLOG)
    (tmp_path / "blog.yaml").write_text(f"data: blog.ttl\nvolatile: {E}followers\n")
    (tmp_path / "reach.rspql").write_text(REACH)
    (tmp_path / "plain.rspql").write_text(PLAIN)
    return tmp_path


def test_run_writes_a_line_of_json_per_evaluation_with_freshness_and_a_journal(place: Path) -> None:
    inputs = ("--stream", f"{E}stream=posts.nq", "--source", f"{E}blog=blog.yaml")
    done = freshkeeper(place, "run", "reach.rspql", *inputs, "--journal", "j")
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == {
        "t": 1000,
        "windows": {f"{E}posts": [-3000, 1000]},
        "op": "RSTREAM",
        "answers": [
            {
                "bindings": {
                    "topic": {"type": "uri", "value": f"{E}jazz"},
                    "reach": {"type": "literal", "value": "1", "datatype": "http://www.w3.org/2001/XMLSchema#integer"},
                },
                "fresh": 1.0,
                "age_ms": 0,
            }
        ],
        "late": 0,
    }
    assert len(second["answers"]) == 2
    assert table_of(place / "j", "evaluations").num_rows == 2
    assert set(table_of(place / "j", "refreshes")["sr"].to_pylist()) >= {f"miss <{E}jazz>"}


@pytest.mark.slow
def test_a_stream_can_come_from_standard_input_and_bad_lines_can_be_skipped(place: Path) -> None:
    arguments = ("run", "plain.rspql", "--stream", f"{E}stream=-", "--format", "csv")
    assert freshkeeper(place, *arguments, stdin=POSTS).stdout.splitlines()[0] == "t,topic,fresh"
    bad = freshkeeper(place, *arguments, stdin=POSTS + "oops\n")
    assert (bad.returncode, "Traceback" in bad.stderr) == (2, False)
    assert "standard input, line 3: 'oops' has no tab" in bad.stderr
    skipped = freshkeeper(place, *arguments, "--on-error", "skip", stdin=POSTS + "oops\n")
    assert skipped.returncode == 0
    assert "1 element was unreadable and skipped" in skipped.stderr


@pytest.mark.slow
def test_explain_shows_the_quadruple_and_the_split(place: Path) -> None:
    done = freshkeeper(place, "explain", "reach.rspql", "--volatile", f"{E}blog={E}followers")
    assert "SELECT ?user ?n WHERE { VALUES ?user { ... } ?user :followers ?n }" in done.stdout
    assert json.loads(freshkeeper(place, "explain", "reach.rspql", "--json").stdout)["QF"] == "SELECT"


@pytest.mark.slow
def test_explain_reads_what_a_run_is_from_its_file_and_config_checks_it(place: Path) -> None:
    run = {"query": "reach.rspql", "streams": {f"{E}stream": "posts.nq"}, "sources": {f"{E}blog": "blog.yaml"}}
    (place / "run.yaml").write_text(json.dumps(run))
    assert "dynamic ?user :followers ?n" in freshkeeper(place, "explain", "run.yaml").stdout
    said = freshkeeper(place, "config", "validate", "run.yaml")
    assert (said.returncode, said.stderr) == (0, "run.yaml is good: a query with 1 window, 1 SERVICE pattern\n")
    (place / "run.yaml").write_text(json.dumps(run | {"streams": {}}))
    said = freshkeeper(place, "config", "validate", "run.yaml")
    assert (said.returncode, "nothing feeds the stream" in said.stderr) == (2, True)
    said = freshkeeper(place, "explain", "reach.rspql", "--volatile", f"{E}blag={E}followers")
    assert said.stderr == f"freshkeeper: the query has no source <{E}blag>; did you mean '{E}blog'?\n"


@pytest.mark.slow
def test_a_run_without_results_or_with_failures_says_so_at_the_end(place: Path) -> None:
    (place / "none.nq").write_text("")
    said = freshkeeper(place, "run", "plain.rspql", "--stream", f"{E}stream=none.nq")
    assert said.stderr == "no result: no window closed before the streams ended; --drain goes on until all are empty\n"
    (place / "gone.yaml").write_text(f"sparql: http://127.0.0.1:9/\nvolatile: {E}followers\nretries: 0\n")
    inputs = ("--stream", f"{E}stream=posts.nq", "--source", f"{E}blog=gone.yaml")
    said = freshkeeper(place, "run", "reach.rspql", *inputs)
    assert (said.returncode, "fetches failed; --log info tells why" in said.stderr) == (0, True)
    said = freshkeeper(place, "run", "plain.rspql", "--stream", f"{E}stream=posts.nq", "--journal", "posts.nq")
    assert (said.returncode, said.stderr) == (2, "freshkeeper: --journal posts.nq is a file: name a directory\n")


def results(place: Path, text: str, tell: Callable[..., Any | None] = lambda _: None, **more: Any) -> list[Result]:
    """What a session gives."""
    streams = {f"{E}stream": str(place / "posts.nq")}
    config = config_of({"query": text, "streams": streams} | more)
    return list(Session(config, parse(text), tell).results())


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            {"streams": {f"{E}streem": "x.nq"}},
            r"line 3, column 43: nothing feeds the stream <http://example.org/stream>",
        ),
        ({"on_error": "ignore"}, "on_error: it must be 'fail' or 'skip', not 'ignore'"),
        ({"fetch": "never"}, "fetch: it must be 'view', 'always' or 'once', not 'never'"),
        ({"speed": "fast"}, "write 1x, 10x or max"),
        ({"volatile": {f"{E}x": ["p"]}}, "<http://example.org/x> is no source"),
    ],
)
def test_a_run_that_cannot_be_says_so_before_it_begins(place: Path, more: dict[str, Any], says: str) -> None:
    with pytest.raises(FreshkeeperError, match=says):
        results(place, PLAIN.replace("SELECT ?topic ", "SELECT ?topic"), **more)


def test_a_service_without_a_source_is_an_error_at_its_place(place: Path) -> None:
    with pytest.raises(QuerySyntaxError, match=r"line 4, column 55: there is no source <http://example.org/blog>"):
        results(place, REACH)
    with pytest.raises(QuerySyntaxError, match=r"did you mean 'http://example.org/blag'"):
        results(place, REACH, sources={f"{E}blag": "blog.ttl"})


def test_what_the_query_does_not_ask_for_is_said(place: Path) -> None:
    heard: list[str] = []
    streams = {f"{E}stream": str(place / "posts.nq"), f"{E}streem": "posts.nq"}
    results(place, PLAIN, streams=streams, sources={f"{E}blog": str(place / "blog.ttl")}, tell=heard.append)
    assert heard == [
        f"the query asks for no stream <{E}streem>; did you mean '{E}stream'?",
        f"the query asks for no source <{E}blog>",
    ]


def test_a_period_without_a_window_is_an_error_because_no_time_passes(place: Path) -> None:
    text = "REGISTER QUERY <q> COMPUTED EVERY 1s AS SELECT * { ?a ?b ?c }"
    with pytest.raises(ConfigError, match="COMPUTED EVERY needs a window"):
        results(place, text)


def test_a_live_stream_that_is_silent_holds_the_others_back_only_for_so_long(place: Path) -> None:
    """The stream of users says one thing and then nothing until the other one has been answered."""
    text = PLAIN.replace("WHERE", "FROM NAMED WINDOW :users ON :live [RANGE PT9S STEP PT1S] WHERE")
    text = text.replace("?topic } }", "?topic } OPTIONAL { WINDOW :users { ?user :is ?what } } }")
    say, answered = threading.Event(), []
    first, second = (f"{at}\t<{E}ann> <{E}is> <{E}{what}> .\n".encode() for at, what in ((500, "new"), (600, "old")))

    def talk() -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(first)
            say.wait(20)
            connection.sendall(second)

    with socket.create_server(("127.0.0.1", 0)) as server:
        talking = threading.Thread(target=talk)
        talking.start()
        streams = {f"{E}stream": str(place / "posts.nq"), f"{E}live": f"tcp://127.0.0.1:{server.getsockname()[1]}"}
        session = Session(config_of({"query": text, "streams": streams, "idle": 300, "on_loss": "end"}), parse(text))
        for result in session.results():
            answered.append((result.t, len(result.answers)))
            say.set()
        talking.join()
    assert answered == [(1000, 1), (2000, 2)]
    assert "too late and left out" in next(iter(session.summary()))


def test_a_graph_without_a_file_is_an_error_at_its_place(place: Path) -> None:
    text = PLAIN.replace("FROM NAMED WINDOW", "FROM NAMED :map FROM NAMED WINDOW", 1)
    with pytest.raises(QuerySyntaxError, match=r"there is no file for the graph <http://example.org/map>"):
        results(place, text)


@pytest.mark.parametrize(
    ("head", "form", "text"),
    [
        ("SELECT ?topic", "csv", "t,topic,fresh\n1000,http://example.org/jazz,1.0\n"),
        ("SELECT (1 AS ?t) (?topic AS ?fresh)", "csv", "_t,t,fresh,_fresh\n1000,1,http://example.org/jazz,1.0\n"),
        ("ASK", "csv", "t,boolean,fresh\n1000,true,1.0\n"),
        ("ASK", "sparql-json", '{"t": 1000, "head": {}, "boolean": true}\n'),
        ("CONSTRUCT { ?post :is ?topic }", "nquads", f"1000\t<{E}p1> <{E}is> <{E}jazz> .\n"),
        (
            "SELECT ?topic",
            "sparql-json",
            '{"t": 1000, "head": {"vars": ["topic"]}, "results": {"bindings": [{"topic": {"type": "uri", "value": '
            '"http://example.org/jazz"}}]}}\n',
        ),
    ],
)
def test_answers_can_be_written_in_other_formats(place: Path, head: str, form: str, text: str) -> None:
    result = results(place, PLAIN.replace("SELECT ?topic ", head))[0]
    assert "".join(writer(form).lines(result)) == text


def test_an_ask_that_streams_nothing_is_no_document_and_not_a_no(place: Path) -> None:
    text = PLAIN.replace("SELECT ?topic ", "ASK").replace("RSTREAM", "ISTREAM")
    first, second = results(place, text)
    assert [json.loads(line)["boolean"] for line in writer("sparql-json").lines(first)] == [True]
    assert list(writer("sparql-json").lines(second)) == []


def test_a_format_that_cannot_say_it_says_so(place: Path) -> None:
    result = results(place, PLAIN)[0]
    with pytest.raises(ConfigError, match="nquads writes triples, and SELECT gives none"):
        list(writer("nquads").lines(result))
    with pytest.raises(ConfigError, match="did you mean 'ndjson'"):
        writer("ndjsn")


def test_what_construct_writes_as_nquads_is_a_stream_again(place: Path) -> None:
    text = PLAIN.replace("SELECT ?topic ", "CONSTRUCT { ?post :is ?topic } ")
    (place / "out.nq").write_text("".join(line for r in results(place, text) for line in writer("nquads").lines(r)))
    again = results(place, PLAIN.replace(":topic ?", ":is ?"), streams={f"{E}stream": str(place / "out.nq")})
    assert [len(result.answers) for result in again] == [1, 2]


TERMS = st.one_of(
    st.text().map(ox.Literal),
    st.sampled_from(['}},{"a":{"type":"', "}},{", "{}", '"}},{"', "\\", '}},{"b']).map(ox.Literal),
    st.integers().map(ox.Literal),
    st.none(),
)


@given(st.lists(st.tuples(TERMS, TERMS), max_size=4))
def test_solutions_spliced_from_the_library_are_those_written_one_by_one(
    rows: Sequence[tuple[Literal | None, Literal | None]],
) -> None:
    cells = [["UNDEF" if term is None else str(term) for term in row] for row in rows]
    query = f"SELECT ?a ?b {{ VALUES (?a ?b) {{ {' '.join(f'({a} {b})' for a, b in cells)} }} }}"

    def lines(answers: LazyRows | Sequence[tuple[Literal | None, Literal | None]]) -> list[dict[str, object]]:
        result = Result(1, Form.SELECT, Operator.RSTREAM, ("a", "b"), answers)
        return [json.loads(line) for line in NdJson().lines(result)]

    assert lines(LazyRows(Unread.of(solutions(ox.Store().query(query))))) == lines(
        [tuple(row) for row in solutions(ox.Store().query(query))]
    )


def test_freshness_is_written_with_age() -> None:
    result = Result(1, Form.SELECT, Operator.RSTREAM, ("a",), [(ox.Literal(1),)], [Freshness(0.25, 7)])
    line = json.loads(io.StringIO("".join(NdJson().lines(result))).read())
    assert (line["answers"][0]["fresh"], line["answers"][0]["age_ms"]) == (0.25, 7)


@pytest.mark.slow
@pytest.mark.parametrize("fetch", ["always", "once"])
def test_a_service_without_a_window_is_asked_once(fetch: str, place: Path) -> None:
    query = "SELECT * { SERVICE SILENT <http://example.org/blog> { ?s ?p ?o } }"
    done = freshkeeper(place, "run", query, "--fetch", fetch, "--source", f"{E}blog=blog.ttl")
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = map(json.loads, done.stdout.splitlines())
    assert len(line["answers"]) == 5
