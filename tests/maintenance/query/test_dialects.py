"""What a dialect cannot say is an error that names who can: seeds/001, section 4."""

from dataclasses import replace
from typing import Any

import pytest

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.query.model import Operator, Query, Report
from freshkeeper.maintenance.query.parser import DIALECTS, detect_dialect, parse
from freshkeeper.maintenance.query.printing import to_dialect
from freshkeeper.maintenance.query.syntax.query_errors import DialectError
from freshkeeper.maintenance.query.syntax.tokens import tokenize

NAMED = parse(
    "PREFIX : <http://e/> SELECT * FROM NAMED WINDOW :l ON :in [RANGE PT2H STEP PT10M] "
    "FROM NAMED WINDOW :s ON :in [RANGE PT10M STEP PT10M] { WINDOW :l { ?a ?b ?c } WINDOW :s { ?a ?b ?d } }"
)
MERGED = parse("PREFIX : <http://e/> SELECT ?a FROM STREAM :in [RANGE 2h STEP 10m] { ?a ?b ?c }")


def changed(query: Query, **changes: Any) -> Query:
    """The query with its (only) window changed."""
    windows = tuple(replace(window, **changes) for window in query.windows)
    return replace(query, dataset=replace(query.dataset, windows=windows))


@pytest.mark.parametrize("dialect", ["csparql", "sparqlstream"])
def test_two_windows_over_one_stream_cannot_be_told_apart_where_windows_have_no_names(dialect: str) -> None:
    with pytest.raises(DialectError, match=r"cannot query a window apart.*; RSP-QL and CQELS-QL can \(.*<http://e/l>"):
        to_dialect(NAMED, dialect)


def test_cqels_cannot_put_a_window_into_the_default_graph() -> None:
    message = "CQELS-QL cannot put a window's content into the default graph; RSP-QL and C-SPARQL and SPARQLstream can"
    with pytest.raises(DialectError, match=message):
        to_dialect(MERGED, "cqels")


def test_cqels_is_always_istream() -> None:
    query = replace(NAMED, times=replace(NAMED.times, report=(Report.ON_CONTENT_CHANGE,)))
    with pytest.raises(DialectError, match=r"CQELS-QL cannot choose.*; RSP-QL and SPARQLstream can \(.*RSTREAM"):
        to_dialect(query, "cqels")
    printed = to_dialect(replace(query, operator=Operator.ISTREAM), "cqels")
    assert "STREAM <http://e/in> [RANGE 2h SLIDE 10m] { ?a ?b ?c }" in printed
    assert [(w.range, w.step) for w in parse(printed).windows] == [(7_200_000, 600_000), (600_000, 600_000)]


def test_csparql_is_always_rstream() -> None:
    query = replace(MERGED, operator=Operator.ISTREAM)
    with pytest.raises(DialectError, match=r"C-SPARQL cannot choose among RSTREAM.*has ISTREAM"):
        to_dialect(query, "csparql")
    assert "SELECT ISTREAM ?a\nFROM NAMED STREAM <http://e/in> [NOW - 2 HOURS TO NOW SLIDE 10 MINUTES]" in to_dialect(
        query, "sparqlstream"
    )


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (changed(MERGED, t0=5), "cannot set when a window starts; RSP-QL can"),
        (changed(MERGED, closure=Closure.LEFT_OPEN), "cannot set which end of a window belongs to it; RSP-QL can"),
        (replace(MERGED, times=replace(MERGED.times, report=(Report.NON_EMPTY,))), "cannot choose the report policy"),
        (changed(MERGED, step=None), "C-SPARQL has no window"),
    ],
)
def test_only_rspql_says_start_report_and_closure(query: Query, says: str) -> None:
    with pytest.raises(DialectError) as caught:
        to_dialect(query, "csparql")
    assert says in str(caught.value)
    assert to_dialect(query, "rspql")


def test_a_window_that_a_dialect_does_not_have_names_those_that_do() -> None:
    query = changed(parse("ASK FROM WINDOW <http://e/w> ON <http://e/s> [ALL] REPORT NON_EMPTY { ?a ?b ?c }"))
    query = replace(query, times=replace(query.times, report=(Report.NON_EMPTY, Report.ON_CONTENT_CHANGE)))
    with pytest.raises(DialectError, match=r"SPARQLstream has no window \[ALL\]; RSP-QL and CQELS-QL can declare it"):
        to_dialect(query, "sparqlstream")


def test_a_window_variable_is_rspqls_alone() -> None:
    query = parse("SELECT ISTREAM ?w FROM NAMED WINDOW <w> ON <s> [NOW] { WINDOW ?w { ?a ?b ?c } }")
    with pytest.raises(DialectError, match="cannot query windows by a variable; RSP-QL can"):
        to_dialect(query, "cqels")


@pytest.mark.parametrize("name", ["RSP-QL", "rspql", "CQELS-QL", "cqels", "C-SPARQL", "csparql", "SPARQLstream"])
def test_dialects_go_by_short_and_long_names(name: str) -> None:
    assert (
        parse("ASK { ?a ?b ?c }", name).dialect.lower().replace("-", "").startswith(name[:4].lower().replace("-", ""))
    )


def test_an_unknown_dialect_suggests_a_near_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'cqels'"):
        parse("ASK { ?a ?b ?c }", "cqel")


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("SELECT * { ?a ?b ?c }", "rspql"),
        ("SELECT * { WINDOW <w> { ?a ?b ?c } }", "rspql"),
        ("REGISTER STREAM <o> AS SELECT * FROM NAMED WINDOW <w> ON STREAM <s> [NOW] { }", "rspql"),
        ("SELECT * FROM STREAM <s> [RANGE 1s STEP 1s] { }", "csparql"),
        ("SELECT * FROM STREAM <s> [NOW - 1 S] { }", "sparqlstream"),
        ("SELECT * FROM NAMED STREAM <s> [TRIPLES 3] { }", "sparqlstream"),
        ("SELECT * { STREAM [NOW] <s> { } }", "cqels"),
        ("SELECT * { OPTIONAL { STREAM <s> [NOW] { } } } # FROM STREAM <s> [RANGE 1s STEP 1s]", "cqels"),
    ],
)
def test_dialects_give_themselves_away(text: str, dialect: str) -> None:
    assert detect_dialect(tokenize(text)) is DIALECTS[dialect]
