"""Several queries in one run: by files, directories, configs and templates; those that fail are left out and named."""

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from commands import freshkeeper
from pyoxigraph import NamedNode

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.runtime.query_set import definitions_of, read_queries, term_of
from freshkeeper.maintenance.runtime.run_config import RunConfig, config_of, read_config
from freshkeeper.maintenance.runtime.run_session import Session

E = "http://example.org/"
POSTS = "".join(f"{1000 * n}\t<{E}p{n}> <{E}topic> <{E}{t}> .\n" for n, t in enumerate(["jazz", "rock", "jazz"], 1))
BLOG = f"""PREFIX : <{E}> :jazz :discussedBy :ann, :bob . :rock :discussedBy :bob .
:ann :followers 1 . :bob :followers 2 ."""
HEAD = f"PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT%dS STEP PT1S]"
TOPICS = HEAD % 2 + " WHERE { WINDOW :w { ?post :topic ?topic } }"
ROCK = HEAD % 1 + " WHERE { WINDOW :w { ?post :topic :rock } }"
REACH = HEAD % 2 + " { WINDOW :w { ?post :topic ?topic } SERVICE :blog { ?topic :discussedBy ?u . ?u :followers ?n } }"
ENDLESS = HEAD % 9 + f" {{ WINDOW :w {{ ?post :topic ?topic }} {' '.join(f'?a{n} ?b{n} ?c{n} .' for n in range(9))} }}"
COUNTED = ENDLESS.replace("SELECT *", "SELECT (COUNT(*) AS ?n) FROM :many").replace("FROM NAMED", " FROM NAMED")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A stream, a source, queries in a directory."""
    (tmp_path / "posts.nq").write_text(POSTS)
    (tmp_path / "blog.ttl").write_text(BLOG)
    (tmp_path / "blog.yaml").write_text(f"data: blog.ttl\nvolatile: {E}followers\n")
    (tmp_path / "queries").mkdir()
    for name, text in {"topics": TOPICS, "rock": ROCK, "reach": REACH}.items():
        (tmp_path / "queries" / f"{name}.rspql").write_text(text)
    return tmp_path


def ran(place: Path, *arguments: str) -> CompletedProcess[str]:
    inputs = ("--stream", f"{E}s=posts.nq", "--source", f"{E}blog=blog.yaml")
    return freshkeeper(place, "run", *arguments, *inputs)


def session(place: Path, queries: dict[str, Any], **more: Any) -> tuple[Session, list[str]]:
    given = {"streams": {f"{E}s": str(place / "posts.nq")}, "sources": {f"{E}blog": str(place / "blog.yaml")}}
    config = config_of({"queries": queries, **given, **more})
    heard: list[str] = []
    failures: dict[str, Exception] = {}
    read = read_queries(config, failures.__setitem__)
    return Session(config, read, heard.append, failures=failures), heard


def answers(results: Iterator[Any]) -> dict[tuple[str, int], list[str]]:
    """What each query answered at each instant."""
    return {(result.query, result.t): sorted(map(str, result.answers)) for result in results}


@pytest.mark.slow
def test_a_directory_of_queries_runs_together_and_each_line_says_whose_it_is(place: Path) -> None:
    done = ran(place, "queries")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["t"], line["query"]) for line in lines] == [
        (1000, "reach"), (1000, "topics"), (2000, "reach"), (2000, "rock"), (2000, "topics"), (3000, "reach"),
        (3000, "topics"),
    ]  # fmt: skip
    assert done.stderr == ""
    everything = ran(place, "queries", "--empty").stdout
    assert [json.loads(line)["query"] for line in everything.splitlines()] == ["reach", "rock", "topics"] * 3


@pytest.mark.slow
def test_a_query_that_is_none_is_named_with_line_and_column_and_the_others_run(place: Path) -> None:
    bad, lost = TOPICS.replace("?topic }", "}"), TOPICS.replace("ON :s", "ON :t")
    (place / "queries" / "bad.rspql").write_text(bad)
    (place / "queries" / "lost.rspql").write_text(lost)
    done = ran(place, "queries")
    assert done.returncode == 1
    said = done.stderr
    at = bad.index("} }") + 1, lost.index(":t ") + 1
    assert f"the query bad is left out: line 1, column {at[0]}: SPARQL does not accept }} here" in said
    assert f"the query lost is left out: line 1, column {at[1]}: nothing feeds the stream <{E}t>" in said
    assert said.endswith("2 of 5 queries failed: bad, lost\n")
    assert {json.loads(line)["query"] for line in done.stdout.splitlines()} == {"reach", "rock", "topics"}


@pytest.mark.slow
def test_none_that_can_run_is_an_error(place: Path) -> None:
    (place / "one.rq").write_text("SELECT")
    (place / "two.rq").write_text("ASK")
    done = ran(place, "one.rq", "two.rq")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == "freshkeeper: none of the 2 queries can run"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["queries", "queries/rock.rspql"], "two queries are called rock: queries/rock.rspql and queries/rock.rspql"),
        (["blank"], "the directory blank holds no queries: their files end in .rspql, .rq, .sparql, .cqels, .csparql"),
        (
            ["queries", "run.yaml"],
            "run.yaml is the config of a run: name it alone, and the queries under its key queries",
        ),
        (["queries", "gone.rq"], "the query gone.rq cannot be read: No such file or directory"),
        (
            ["queries", "--format", "csv"],
            "format: a table of csv has the columns of one query: let several write files, out: DIR",
        ),
        (["queries/rock.rspql", "--out", "x"], "out is for several queries; the answers of one go to standard output"),
    ],
)
def test_what_cannot_be_meant_is_one_line_before_anything_runs(place: Path, arguments: list[str], says: str) -> None:
    (place / "blank").mkdir()
    done = ran(place, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"freshkeeper: {says}\n")


@pytest.mark.slow
def test_each_query_may_have_a_file_of_its_own(place: Path) -> None:
    done = ran(place, "queries", "--out", "answers", "--format", "csv")
    assert (done.returncode, done.stdout) == (0, "")
    assert {file.name: len(file.read_text().splitlines()) for file in (place / "answers").iterdir()} == {
        "reach.csv": 1 + 2 + 3 + 3, "rock.csv": 1 + 1, "topics.csv": 1 + 1 + 2 + 2,
    }  # fmt: skip


def test_a_config_names_queries_with_keys_of_their_own(place: Path) -> None:
    (place / "run.yaml").write_text(
        f"queries:\n  all: queries/topics.rspql\n  reach: {{query: queries/reach.rspql, policy: lru, fetch: always}}\n"
        f"streams: {{'{E}s': posts.nq}}\nsources: {{'{E}blog': blog.yaml}}\n"
    )
    config = read_config(place / "run.yaml", {})
    failures: dict[str, Exception] = {}
    found = answers(Session(config, read_queries(config, failures.__setitem__)).results())
    assert not failures
    assert {name for name, _ in found} == {"all", "reach"}
    (place / "run.yaml").write_text("queries:\n  all: a.rq\n  all: b.rq\n")
    with pytest.raises(ConfigError, match=r"run\.yaml is no YAML: line 3, column 3: all stands there twice$"):
        read_config(place / "run.yaml", {})
    (place / "run.yaml").write_text("query: a.rq\nqueries: {all: b.rq}\n")
    with pytest.raises(ConfigError, match="query is for one, queries and templates are for several"):
        read_config(place / "run.yaml", {})


NEAR = HEAD % 2 + " WHERE { WINDOW :w { $person :topic ?topic } FILTER(?topic != $not) }"


def template(place: Path, table: str, text: str = NEAR, name: str = "persons.csv") -> RunConfig:
    (place / "near.rq").write_text(text)
    (place / name).write_text(table)
    return config_of({"templates": {"near": {"query": str(place / "near.rq"), "instances": str(place / name)}}})


def test_a_template_has_an_instance_for_every_row_of_its_table(place: Path) -> None:
    config = template(place, f'name,person,not,more\none,{E}p1,"""rock""@en",x\ntwo,<{E}p2>,7,\n')
    texts = {name: one.query for name, one in definitions_of(config).items()}
    assert texts["near.one"] == NEAR.replace("$person", f"<{E}p1>").replace("$not", '"rock"@en')
    assert texts["near.two"] == NEAR.replace("$person", f"<{E}p2>").replace("$not", "7")
    rows = template(place, f"- {{person: '{E}p1', not: true}}\n- {{person: '{E}p2', not: some words}}\n", name="p.yaml")
    ends = {name: one.query.partition("!=")[2] for name, one in definitions_of(rows).items()}
    assert ends == {"near.1": " true) }", "near.2": ' "some words") }'}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("person\nx\n", r"asks for \$not, and row 1 of .*persons.csv has no such column"),
        ("person,not\nx,1\n,2\n", r"asks for \$person, and row 2 of .*persons.csv has nothing in that column"),
        ("person,not\n", "the template near has no instances: .*persons.csv holds no rows"),
        ("person,not\n<x> } ASK {,1\n", "person in row 1 of .*persons.csv is no term: '<x> } ASK {'"),
        ("person,not\nx,1,2\n", "row 1 of .*persons.csv has more cells than its head"),
        ("name,person,not\na,x,1\na,y,1\n", "two queries are called near.a: row 1 of .* and row 2 of "),
        ("name,person,not\n../a,x,1\n", r"a query is called 'near\.\.\./a'"),
    ],
)
def test_a_template_without_its_constants_is_an_error_that_says_where(place: Path, table: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        definitions_of(template(place, table))


def test_a_query_without_places_for_constants_is_no_template(place: Path) -> None:
    with pytest.raises(ConfigError, match=r"the template near has no \$name"):
        definitions_of(template(place, "a\n1\n", text=TOPICS))


@pytest.mark.parametrize("cell", ['"', "<a b>", '"x"^^', "<", '"a" "b"', '"x"@', "<a:b> <c:d>"])
def test_a_cell_that_is_no_term_gets_nowhere(cell: str) -> None:
    with pytest.raises(ConfigError, match="is no term"):
        term_of(cell, "it")


def test_a_cell_is_a_term_as_it_looks() -> None:
    cells = ["urn:x", "1e3", "-4.5", "true", 'say "hi"', f"{E}a", "a:b", "_:b"]
    assert [term_of(cell, "it") for cell in cells] == [
        "<urn:x>", "1e3", "-4.5", "true", '"say \\"hi\\""', str(NamedNode(f"{E}a")), '"a:b"', '"_:b"',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"limit": "500ms"}, "an evaluation took longer than PT0.5S; raise --limit to allow more time"),
        ({"most_rows": 1000}, "an evaluation has more than 1,000 rows; raise --most-rows to allow more"),
    ],
)
def test_an_endless_product_ends_at_the_limit_and_the_others_go_on(
    place: Path, limits: dict[str, object], says: str
) -> None:
    many = "".join(f"<{E}a{n}> <{E}b> {n} .\n" for n in range(300))
    (place / "many.ttl").write_text(many)
    endless = COUNTED if "limit" in limits else ENDLESS.replace("SELECT *", "SELECT * FROM :many")
    made, heard = session(
        place, {"rock": ROCK, "endless": {"query": endless, **limits}}, graphs={f"{E}many": str(place / "many.ttl")}
    )
    found = answers(made.results())
    assert set(found) == {("rock", 1000), ("rock", 2000), ("rock", 3000)}
    assert heard[1:] == [f"the query endless is left out: {says}"]
    assert list(made.summary()) == ["1 of 2 queries failed: endless"]


def test_a_limit_that_is_not_reached_changes_no_answer(place: Path) -> None:
    texts = {
        "topics": TOPICS, "reach": REACH,
        "made": TOPICS.replace("SELECT *", "CONSTRUCT { ?post :about ?topic }"),
        "asked": TOPICS.replace("SELECT *", "ASK"),
    }  # fmt: skip
    free, _ = session(place, texts)
    bound, heard = session(place, texts, limit="30s", most_rows=1_000_000)
    expected = answers(free.results())
    assert len(expected) == 12
    assert answers(bound.results()) == expected
    assert heard == []
