"""One query in four dialects: equal answers where seeds/001 says that the engines agree, and where they differ, how."""

from collections.abc import Callable
from typing import Any

import pytest
from pyoxigraph import NamedNode, Triple
from terms import in_default_graph

from freshkeeper import continuous_query, run

Ask = Callable[..., dict[int, list[str]]]

BODY = "?post :topic ?topic"
RSPQL = (
    "SELECT {op} ?post ?topic FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S{more}] {report} "
    "{{ WINDOW :w {{ ?post :topic ?topic }} }}"
)
CSPARQL = f"REGISTER QUERY q AS SELECT ?post ?topic FROM STREAM :s [RANGE 2s STEP 1s] {{ {BODY} }}"
SPARQLSTREAM = f"SELECT RSTREAM ?post ?topic FROM NAMED STREAM :s [NOW - 2 S TO NOW SLIDE 1 S] {{ {BODY} }}"
CQELS = f"SELECT ?post ?topic {{ STREAM :s [RANGE 2s SLIDE 1s] {{ {BODY} }} }}"

BETWEEN = [(n * 1000 - 500, f":post{n} :topic :topic{n % 2}") for n in range(1, 6)]
"""Something in every step, nothing on a boundary."""
GAP = [(500, ":post1 :topic :jazz"), (5500, ":post2 :topic :rock"), (6500, ":post3 :topic :rock")]
BOUNDARY = [(1000, ":post1 :topic :jazz"), (2500, ":post2 :topic :rock"), (3500, ":post3 :topic :rock")]


def rspql(op: str = "RSTREAM", report: str = "", more: str = "") -> str:
    """The query in RSP-QL, with what it can say and others cannot."""
    return RSPQL.format(op=op, report=f"REPORT {report}" if report else "", more=more)


def test_rspql_csparql_and_sparqlstream_agree_where_windows_are_full_and_boundaries_bare(ask: Ask) -> None:
    found = ask(rspql(), BETWEEN)
    assert found[4000] == ["post3 topic1", "post4 topic0"]
    assert ask(CSPARQL, BETWEEN) == found
    assert ask(SPARQLSTREAM, BETWEEN) == found


def test_cqels_agrees_with_the_istream_of_the_others(ask: Ask) -> None:
    found = ask(CQELS, BETWEEN)
    assert found[4000] == ["post4 topic0"]
    assert ask(rspql("ISTREAM"), BETWEEN) == found
    assert ask(SPARQLSTREAM.replace("RSTREAM", "ISTREAM"), BETWEEN) == found


def test_rstream_repeats_what_cqels_says_once(ask: Ask) -> None:
    repeated, once = ask(CSPARQL, BETWEEN), ask(CQELS, BETWEEN)
    assert sum(map(len, repeated.values())) == 7
    assert sum(map(len, once.values())) == 4
    assert all(set(once[t]) <= set(repeated[t]) for t in once)


def test_csparql_and_sparqlstream_keep_silent_about_empty_windows_and_rspql_does_not(ask: Ask) -> None:
    assert ask(rspql(), GAP)[4000] == []
    assert list(ask(rspql(), GAP)) == [1000, 2000, 3000, 4000, 5000, 6000]
    for text in (CSPARQL, SPARQLSTREAM, rspql(report="ON_WINDOW_CLOSE, NON_EMPTY")):
        assert list(ask(text, GAP)) == [1000, 2000, 6000]


def test_cqels_is_evaluated_when_content_changes_also_when_it_becomes_empty(ask: Ask) -> None:
    assert ask(CQELS, GAP) == {1000: ["post1 jazz"], 3000: [], 6000: ["post2 rock"]}
    assert ask(rspql("ISTREAM", "ON_CONTENT_CHANGE"), GAP) == ask(CQELS, GAP)


def test_an_element_on_a_boundary_belongs_to_the_window_that_ends_or_begins_there(ask: Ask) -> None:
    assert ask(rspql(), BOUNDARY) == {1000: ["post1 jazz"], 2000: ["post1 jazz"], 3000: ["post2 rock"]}
    assert ask(CSPARQL, BOUNDARY) == {2000: ["post1 jazz"], 3000: ["post1 jazz", "post2 rock"]}
    same = rspql(report="ON_WINDOW_CLOSE, NON_EMPTY", more=" CLOSURE RIGHT_OPEN")
    assert ask(same, BOUNDARY) == ask(CSPARQL, BOUNDARY) == ask(SPARQLSTREAM, BOUNDARY)


EMERGING = "{ SELECT ?topic (COUNT(*) AS ?%s) { ?%s :topic ?topic } GROUP BY ?topic }"
LONG, SHORT = EMERGING % ("long", "m1"), EMERGING % ("short", "m2")
POSTS = [(n * 60_000 + 1, f":old{n} :topic :calm") for n in range(0, 115, 5)]
POSTS += [(n * 60_000 + 1, f":new{n} :topic :news") for n in range(111, 121)]


@pytest.mark.parametrize(
    "text",
    [
        "CONSTRUCT {{ ?topic a :EmergingTopic }} FROM NAMED WINDOW :l ON :s [RANGE PT120M STEP PT10M] FROM "
        "NAMED WINDOW :k ON :s [RANGE PT10M STEP PT10M] "
        "{{ WINDOW :l {0} WINDOW :k {1} FILTER(?short - ?long / 12 > 5) }}",
        "CONSTRUCT {{ ?topic a :EmergingTopic }} {{ STREAM :s [RANGE 120m SLIDE 10m] {0} "
        "STREAM :s [RANGE 10m SLIDE 10m] {1} FILTER(?short - ?long / 12 > 5) }}",
    ],
    ids=["rspql", "cqels"],
)
def test_emerging_topics_need_two_windows_over_one_stream_told_apart(ask: Ask, text: str) -> None:
    """Listings 2 and 6: what is frequent in ten minutes and was not in two hours."""
    found = {t: answers for t, answers in ask(text.format(LONG, SHORT), POSTS).items() if answers}
    assert found == {7_200_000: ["news http://www.w3.org/1999/02/22-rdf-syntax-ns#type EmergingTopic"]}


def test_csparql_merges_two_windows_over_one_stream(ask: Ask) -> None:
    """Listing 3: the union of the windows, in which the short one adds nothing."""
    one = "REGISTER QUERY q AS SELECT ?m FROM STREAM :s [RANGE 120m STEP 10m] { ?m :topic :news }"
    two = one.replace("{", "FROM STREAM :s [RANGE 10m STEP 10m] {", 1)
    assert ask(two, POSTS) == ask(one, POSTS)


def test_a_network_of_csparql_queries_finds_what_one_cannot(run_query: Callable[..., list[Any]]) -> None:
    """Listings 4 and 5: two counting queries feed a third one, through their output streams."""
    count = (
        "REGISTER STREAM :o AS CONSTRUCT {{ ?topic :{0} ?n }} FROM STREAM :s [RANGE {1}m STEP 10m] "
        "{{ SELECT ?topic (COUNT(*) AS ?n) {{ ?m :topic ?topic }} GROUP BY ?topic }}"
    )
    streams = {}
    for name, minutes in (("long", 120), ("short", 10)):
        results = run_query(count.format(name, minutes), POSTS, drain=True)
        streams[name] = [(r.t, f"{triple}") for r in results for triple in r.answers]
    join = (
        "REGISTER STREAM :o AS SELECT ?topic FROM STREAM :long [RANGE 10m STEP 10m] FROM STREAM :short "
        "[RANGE 10m STEP 10m] { ?topic :long ?l ; :short ?n FILTER(?n - ?l / 12 > 5) }"
    )
    found = {r.t: len(r.answers) for r in run_query(join, streams, drain=True)}
    assert {t for t, n in found.items() if n} == {7_800_000}


@pytest.mark.parametrize("block", ["STREAM ?s [NOW] { ?x <urn:at> ?room }", "STREAM [NOW] ?s { ?x <urn:at> ?room }"])
def test_a_stream_that_is_a_variable_is_every_stream_of_the_run_and_is_named_in_the_answer(block: str) -> None:
    static = "GRAPH <urn:rooms> { ?room <urn:seen_by> ?s }"
    streams = {f"urn:{name}": [(1000, Triple(*map(NamedNode, (f"urn:x{name}", "urn:at", "urn:r"))))] for name in "abc"}
    rooms = [in_default_graph(Triple(*map(NamedNode, ("urn:r", "urn:seen_by", f"urn:{name}")))) for name in "ab"]
    text = f"SELECT ?x ?s FROM NAMED <urn:rooms> WHERE {{ {static} {block} }}"
    query = continuous_query(text, graphs={"urn:rooms": rooms}, streams=list(streams))
    found = {str(answer) for result in run(query, streams) for answer in result.answers}
    assert len(query.query.windows) == 3
    assert found == {str((NamedNode("urn:xa"), NamedNode("urn:a"))), str((NamedNode("urn:xb"), NamedNode("urn:b")))}
