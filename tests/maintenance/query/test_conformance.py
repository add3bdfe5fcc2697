"""Queries that nobody in this project wrote: W3C SPARQL 1.1 and the RSP-QL corpus of RSP4J and the W3C group.

The data is found by FRESHKEEPER_DATA, or beside the project; without it these tests are skipped.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest

from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.printing import to_dialect
from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError

ROOT = Path(__file__).parents[3]
DATA = Path(os.environ.get("FRESHKEEPER_DATA", ROOT.parent / "shared" / "data"))

REASONS = {
    "w3c-sample-queries.md#1": (
        "SELECT takes a variable",
        "an aggregate in SELECT without parentheses",
    ),
    "w3c-sample-queries.md#2": ("never closed", "a parenthesis of SELECT is missing"),
    "w3c-sample-queries.md#3": ("never closed", "a bracket is missing"),
    "w3c-sample-queries.md#4": ("prefix : is unknown", "the prefix of the window's name is not declared"),
    "w3c-sample-queries.md#5": ("SELECT takes a variable", "(...) AS ?profit for (... AS ?profit)"),
    "w3c-sample-queries.md#6": ("prefix : is unknown", "the prefix of the window's name is not declared"),
    "w3c-sample-queries.md#7": ("name of a graph is missing", "FROM GRAPH for FROM"),
    "w3c-sample-queries.md#8": ("FROM inside the pattern", "a window declared in a sub-query"),
    "w3c-srbench-queries.md#1": ("prefix : is unknown", "the prefix of the window's name is not declared"),
    "w3c-srbench-queries.md#2": ("prefix : is unknown", "the prefix of the window's name is not declared"),
    "w3c-srbench-queries.md#3": ("prefix : is unknown", "the prefix of the window's name is not declared"),
    "w3c-srbench-queries.md#4": ("prefix : is unknown", "the prefix of the window's name is not declared"),
}
"""Why a query of the corpus is rejected: what the error says, and the reason in words."""


FUNCTIONS = {"syntax-query/syntax-select-expr-04.rq"}
"""What is right as syntax and calls a function that nobody has."""


def folder(name: str) -> Path:
    """A folder of the data, or a skip that says what is missing."""
    if not (DATA / name).is_dir():
        pytest.skip(f"no {name} under {DATA}: set FRESHKEEPER_DATA")
    return DATA / name


def corpus(root: Path) -> Iterator[tuple[str, str]]:
    """Every query of the corpus: one per file, or the blocks of a document that declare a window."""
    for path in sorted(root.iterdir()):
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".md":
            yield path.name, text
            continue
        blocks = re.findall(r"```\s*\n(.*?)```", text, re.DOTALL)
        blocks = blocks or re.split(r"^##.*$", re.sub(r"^(\t|  \t)", "", text, flags=re.MULTILINE), flags=re.MULTILINE)
        queries = [block for block in blocks if "WINDOW" in block and "PREFIX" in block]
        yield from ((f"{path.name}#{number}", query) for number, query in enumerate(queries, 1))


def test_every_query_of_the_rspql_corpus_is_accepted_or_rejected_for_a_listed_reason() -> None:
    rejected = {}
    queries = dict(corpus(folder("rspql-corpus")))
    for name, text in queries.items():
        try:
            query = parse(text)
        except QuerySyntaxError as error:
            rejected[name] = error.problem
            continue
        assert query.windows, name
        assert parse(to_dialect(query)) == query, name
    assert rejected.keys() == REASONS.keys()
    assert [name for name, problem in rejected.items() if REASONS[name][0] not in problem] == []
    assert len(queries) == 24


def cases(root: Path) -> Iterator[tuple[str, str, bool]]:
    """Every SPARQL query of the manifests: its name, its text, and whether it is one."""
    for manifest in sorted(root.glob("*/manifest.ttl")):
        store = ox.Store()
        store.load(path=str(manifest), format=ox.RdfFormat.TURTLE, base_iri=manifest.as_uri())
        found = store.query(
            "PREFIX mf: <http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#> "
            "PREFIX qt: <http://www.w3.org/2001/sw/DataAccess/tests/test-query#> "
            "SELECT ?test ?type ?file { ?test a ?type ; mf:action ?a OPTIONAL { ?a qt:query ?q } "
            "BIND(COALESCE(?q, ?a) AS ?file) FILTER(STRENDS(STR(?file), '.rq')) }"
        )
        assert isinstance(found, ox.QuerySolutions)
        for row in found:
            path = manifest.parent / str(row["file"]).rstrip(">").rsplit("/", 1)[1]
            name = f"{manifest.parent.name}/{path.name}"
            yield name, path.read_text(encoding="utf-8"), "Negative" not in str(row["type"])


def accepts(text: str) -> bool:
    """Whether the front end takes it as a query, which then survives printing."""
    try:
        query = parse(text, base="http://www.w3.org/2001/sw/DataAccess/tests/")
    except QuerySyntaxError:
        return False
    assert parse(to_dialect(query)) == query
    return True


def test_w3c_sparql_queries_are_accepted_and_what_is_none_is_rejected() -> None:
    found = list(cases(folder("w3c-sparql11")))
    wrong = [name for name, text, right in found if accepts(text) != right]
    assert set(wrong) == FUNCTIONS
    syntax = [right for name, _, right in found if name.startswith("syntax-query/")]
    assert (syntax.count(True), syntax.count(False)) == (63, 31)
    assert len(found) == 345
