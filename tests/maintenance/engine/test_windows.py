"""Windows, R2S and report policies, worked by hand."""

from collections.abc import Callable
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.engine.stored_literals import stored_quads, stored_term

Ask = Callable[..., dict[int, list[str]]]

STREAM = [(1000, ":a :p 1"), (2000, ":b :p 2"), (3000, ":c :p 3"), (7000, ":d :p 4")]
W = "FROM NAMED WINDOW :w ON :s"
WHERE = "WHERE { WINDOW :w { ?x :p ?n } }"


def test_a_window_holds_what_came_in_its_range_and_every_gap_is_reported_in_order(ask: Ask) -> None:
    found = ask(f"SELECT ?x {W} [RANGE PT2S STEP PT1S] {WHERE}", STREAM)
    assert found == {
        1000: ["a"],
        2000: ["a", "b"],
        3000: ["b", "c"],
        4000: ["c"],
        5000: [],
        6000: [],
        7000: ["d"],
    }
    assert list(found) == sorted(found)


def test_a_right_open_window_leaves_out_its_end_and_keeps_its_beginning(ask: Ask) -> None:
    found = ask(f"SELECT ?x {W} [RANGE PT2S STEP PT1S CLOSURE RIGHT_OPEN] {WHERE}", STREAM)
    assert found[1000] == []
    assert found[3000] == ["a", "b"]
    assert found[5000] == ["c"]


def test_a_window_may_end_before_the_evaluation(ask: Ask) -> None:
    found = ask(f"SELECT ?x {W} [FROM NOW-PT3S TO NOW-PT1S STEP PT1S] {WHERE}", STREAM, drain=True)
    assert found == {
        1000: [], 2000: ["a"], 3000: ["a", "b"], 4000: ["b", "c"], 5000: ["c"], 6000: [], 7000: [], 8000: ["d"],
        9000: ["d"], 10000: [],
    }  # fmt: skip
    right_open = ask(f"SELECT ?x {W} [FROM NOW-PT3S TO NOW-PT1S STEP PT1S CLOSURE RIGHT_OPEN] {WHERE}", STREAM)
    assert right_open == {1000: [], 2000: [], 3000: ["a"], 4000: ["a", "b"], 5000: ["b", "c"], 6000: ["c"], 7000: []}


def test_a_lagging_window_without_a_step_moves_when_an_element_comes_into_it(ask: Ask) -> None:
    found = ask(f"SELECT ?x {W} [FROM NOW-PT3S TO NOW-PT1.5S] {WHERE}", STREAM)
    assert found == {2500: ["a"], 3500: ["a", "b"], 4500: ["b", "c"], 8500: ["d"]}
    merged = "SELECT ?x FROM STREAM :s [NOW - 3 S TO NOW - 1500 MS] { ?x :p ?n }"
    assert ask(merged, STREAM) == {2501: ["a"], 3501: ["a", "b"], 4501: ["b", "c"], 8501: ["d"]}


def test_a_past_window_is_compared_with_the_present_one(ask: Ask) -> None:
    text = f"""SELECT ?x (?n - ?before AS ?more) FROM NAMED WINDOW :past ON :s [FROM NOW-PT4S TO NOW-PT2S STEP PT2S]
        {W} [FROM NOW-PT2S TO NOW-PT0S STEP PT2S] {{ WINDOW :w {{ ?x :p ?n }} WINDOW :past {{ ?x :p ?before }} }}"""
    assert ask(text, [(1000, ":a :p 1"), (2500, ":a :p 4"), (6000, ":a :p 9")]) == {
        2000: [],
        4000: ["a 3"],
        6000: ["a 5"],
    }


def test_groups_are_constructed_and_asked_for(ask: Ask) -> None:
    stream = [(1000, ":a :p 1"), (1500, ":a :p 2"), (2000, ":b :p 3"), (4000, ":b :p 4")]
    window = f"{W} [RANGE PT2S STEP PT2S] {WHERE}"
    text = f"CONSTRUCT {{ ?x :has true ; :parity ?odd }} {window} GROUP BY ?x (?n > 9 AS ?odd) HAVING (COUNT(?n) > 1)"
    assert ask(text, stream) == {2000: ["a has true", "a parity false"], 4000: []}
    assert ask(f"ASK {window} GROUP BY ?x HAVING (COUNT(?n) > 1)", stream) == {2000: ["True"], 4000: ["False"]}
    assert ask(f"ASK {window} HAVING (SUM(?n) > 5)", stream) == {2000: ["True"], 4000: ["False"]}


@pytest.mark.timeout(20)
def test_draining_does_not_wait_for_a_count_window_that_time_never_empties(ask: Ask) -> None:
    windows = f"{W} [RANGE PT2S STEP PT1S] FROM WINDOW :c ON :s [ELEMENTS 2 STEP 1] REPORT NON_EMPTY"
    assert max(ask(f"SELECT ?x {windows} {WHERE}", STREAM, drain=True)) == 9000


def test_draining_goes_on_until_the_windows_are_empty(ask: Ask) -> None:
    found = ask(f"SELECT ?x {W} [RANGE PT2S STEP PT1S] {WHERE}", STREAM, drain=True)
    assert {t: found[t] for t in found if t > 7000} == {8000: ["d"], 9000: []}


def test_a_window_starts_where_it_says(ask: Ask) -> None:
    found = ask(f"SELECT ?x {W} [RANGE PT2S STEP PT2S STARTING AT 1500] {WHERE}", STREAM)
    assert found == {3500: ["b", "c"], 5500: []}
    assert ask(f"SELECT ?x {W} [RANGE PT2S STEP PT2S] {WHERE}", STREAM, start=500) == {
        2500: ["a", "b"],
        4500: ["c"],
        6500: [],
    }


@pytest.mark.parametrize(
    ("operator", "answers"),
    [
        ("RSTREAM", {1000: ["a"], 2000: ["a", "b"], 3000: ["b", "c"], 4000: ["c"]}),
        ("ISTREAM", {1000: ["a"], 2000: ["b"], 3000: ["c"], 4000: []}),
        ("DSTREAM", {1000: [], 2000: [], 3000: ["a"], 4000: ["b"]}),
    ],
)
def test_r2s_streams_all_answers_or_those_that_came_or_those_that_went(
    ask: Ask, operator: str, answers: dict[int, list[str]]
) -> None:
    found = ask(f"SELECT {operator} ?x {W} [RANGE PT2S STEP PT1S] {WHERE}", [*STREAM[:3], (4000, ":x :q 0")])
    assert found == answers


def test_istream_compares_bags_so_that_the_same_answer_once_more_is_news(ask: Ask) -> None:
    stream = [(1000, ":a :p 1"), (2000, ":b :p 1")]
    assert ask(f"SELECT ISTREAM ?n {W} [RANGE PT9S STEP PT1S] {WHERE}", stream) == {1000: ["1"], 2000: ["1"]}


def test_construct_compares_solutions_and_not_triples(ask: Ask) -> None:
    stream = [(1000, ":a :p 1"), (2000, ":b :p 1")]
    text = f"CONSTRUCT ISTREAM {{ :some :has ?n }} {W} [RANGE PT9S STEP PT1S] {WHERE}"
    assert ask(text, stream) == {1000: ["some has 1"], 2000: ["some has 1"]}
    assert ask(text.replace("ISTREAM", "RSTREAM"), stream) == {1000: ["some has 1"], 2000: ["some has 1"]}


def test_the_same_triple_again_stays_for_its_latest_time(ask: Ask) -> None:
    stream = [(1000, ":a :p 1"), (2000, ":a :p 1"), (4000, ":b :p 2")]
    found = ask(f"SELECT ?x {W} [RANGE PT2S STEP PT1S] {WHERE}", stream)
    assert found == {1000: ["a"], 2000: ["a"], 3000: ["a"], 4000: ["b"]}


def test_merged_windows_join_the_default_graph_and_a_triple_of_two_is_there_once(ask: Ask) -> None:
    text = (
        "SELECT ?x ?n FROM WINDOW :u ON :s [RANGE PT1S STEP PT1S] FROM WINDOW :v ON :s [RANGE PT3S STEP PT1S] "
        "WHERE { ?x :p ?n }"
    )
    assert ask(text, STREAM)[3000] == ["a 1", "b 2", "c 3"]
    assert ask(text, STREAM, {"": ":b :p 2 . :z :p 9"})[7000] == ["b 2", "d 4", "z 9"]


def test_a_window_keeps_its_content_until_its_own_next_instant(ask: Ask) -> None:
    text = (
        "SELECT ?x ?y FROM NAMED WINDOW :u ON :s [RANGE PT1S STEP PT1S] FROM NAMED WINDOW :v ON :s "
        "[RANGE PT2S STEP PT2S] WHERE { WINDOW :u { ?x :p ?n } WINDOW :v { ?y :p ?m } }"
    )
    assert ask(text, STREAM[:3]) == {1000: [], 2000: ["b a", "b b"], 3000: ["c a", "c b"]}


def test_windows_over_two_streams_meet_in_one_query(ask: Ask) -> None:
    text = (
        "SELECT ?x ?y FROM NAMED WINDOW :u ON :one [RANGE PT2S STEP PT1S] FROM NAMED WINDOW :v ON :two "
        "[RANGE PT2S STEP PT1S] WHERE { WINDOW :u { ?x :p ?n } WINDOW :v { ?y :p ?n } }"
    )
    streams = {"one": [(1000, ":a :p 1"), (3000, ":b :p 2")], "two": [(2000, ":c :p 1"), (4000, ":d :p 2")]}
    assert ask(text, streams) == {1000: [], 2000: ["a c"], 3000: [], 4000: ["b d"]}


def test_a_window_variable_ranges_over_windows_and_a_graph_variable_over_graphs(ask: Ask) -> None:
    text = (
        f"SELECT ?w ?g FROM NAMED :names {W} [RANGE PT1S STEP PT1S] FROM NAMED WINDOW :v ON :s [RANGE PT9S STEP PT1S] "
        "WHERE { WINDOW ?w { ?x :p 1 } GRAPH ?g { ?a ?b ?c } }"
    )
    assert ask(text, STREAM[:2], {"names": ":a :b :c"}) == {1000: ["v names", "w names"], 2000: ["v names"]}


@pytest.mark.parametrize(
    ("window", "answers"),
    [
        ("[ELEMENTS 2]", {1000: ["a"], 2000: ["a", "b"], 3000: ["b", "c"], 7000: ["c", "d"]}),
        ("[ELEMENTS 2 STEP 2]", {2000: ["a", "b"], 7000: ["c", "d"]}),
        ("[NOW]", {1000: ["a"], 2000: ["b"], 3000: ["c"], 7000: ["d"]}),
        ("[ALL]", {1000: ["a"], 2000: ["a", "b"], 3000: ["a", "b", "c"], 7000: ["a", "b", "c", "d"]}),
        ("[RANGE PT2S]", {1000: ["a"], 2000: ["a", "b"], 3000: ["b", "c"], 7000: ["d"]}),
    ],
)
def test_windows_without_a_step_of_time_move_with_elements(
    ask: Ask, window: str, answers: dict[int, list[str]]
) -> None:
    assert ask(f"SELECT ?x {W} {window} {WHERE}", STREAM) == answers


def test_a_count_window_reports_every_close_within_one_instant(run_query: Callable[..., list[Any]]) -> None:
    stream = [(5, ":a :p 1"), (5, ":b :p 1"), (5, ":c :p 1"), (5, ":d :p 1"), (5, ":e :p 1")]
    results = run_query(f"SELECT ?x {W} [ELEMENTS 2 STEP 2] {WHERE}", stream)
    assert [(r.t, len(r.answers), r.windows["http://e/w"]) for r in results] == [(5, 2, (5, 5)), (5, 2, (5, 5))]


@pytest.mark.parametrize(
    ("report", "instants"),
    [
        ("ON_WINDOW_CLOSE", [1000, 2000, 3000, 4000, 5000, 6000, 7000]),
        ("ON_CONTENT_CHANGE", [1000, 2000, 3000, 4000, 5000, 7000]),
        ("NON_EMPTY", [1000, 2000, 3000, 4000, 7000]),
        ("ON_WINDOW_CLOSE, ON_CONTENT_CHANGE, NON_EMPTY", [1000, 2000, 3000, 4000, 7000]),
    ],
)
def test_report_policies_say_which_evaluations_count(ask: Ask, report: str, instants: list[int]) -> None:
    assert list(ask(f"SELECT ?x {W} [RANGE PT2S STEP PT1S] REPORT {report} {WHERE}", STREAM)) == instants


def test_a_periodic_query_is_evaluated_with_its_period(ask: Ask) -> None:
    text = f"REGISTER QUERY :q COMPUTED EVERY PT3S AS SELECT ?x {W} [RANGE PT2S STEP PT1S] {WHERE}"
    assert ask(text, STREAM) == {3000: ["b", "c"], 6000: []}


def test_ask_and_aggregates_report_when_nothing_is_there(ask: Ask) -> None:
    assert ask(f"ASK {W} [RANGE PT1S STEP PT1S] {WHERE}", STREAM)[5000] == ["False"]
    assert ask(f"SELECT (COUNT(*) AS ?n) {W} [RANGE PT1S STEP PT1S] {WHERE}", STREAM)[5000] == ["0"]


def test_late_elements_are_counted_and_a_delay_lets_them_in(run_query: Callable[..., list[Any]]) -> None:
    stream = [(1000, ":a :p 1"), (3000, ":c :p 3"), (2000, ":b :p 2"), (4000, ":d :p 4")]
    text = f"SELECT ?x {W} [RANGE PT9S STEP PT1S] {WHERE}"
    strict, patient = run_query(text, stream), run_query(text, stream, delay=1000)
    assert (strict[-1].late, len(strict[-1].answers)) == (1, 3)
    assert (patient[-1].late, len(patient[-1].answers)) == (0, 4)
    assert [r.t for r in patient] == [1000, 2000, 3000, 4000]
    assert [len(r.answers) for r in patient] == [1, 2, 3, 4]


def test_the_time_of_an_element_and_of_the_evaluation_can_be_asked(ask: Ask) -> None:
    text = (
        f"SELECT ?x (<freshkeeper:timestamp>(?x, :p, ?n) AS ?at) (<freshkeeper:now>() AS ?now) "
        f"{W} [RANGE PT2S STEP PT1S] {WHERE}"
    )
    assert ask(text, STREAM[:2]) == {1000: ["a 1000 1000"], 2000: ["a 1000 2000", "b 2000 2000"]}


def test_static_graphs_are_loaded_once_and_joined(ask: Ask) -> None:
    text = (
        f"SELECT ?x ?name FROM :people FROM NAMED :map {W} [RANGE PT1S STEP PT1S] "
        "WHERE { WINDOW :w { ?x :p ?n } ?x :name ?name GRAPH :map { ?name :in ?y } }"
    )
    graphs = {"people": ":a :name :ann . :b :name :bob", "map": ":bob :in :rome"}
    assert ask(text, STREAM[:2], graphs) == {1000: [], 2000: ["b bob"]}


def typed(value: str, kind: str) -> str:
    """A literal with a type of XML Schema."""
    return f'"{value}"^^<http://www.w3.org/2001/XMLSchema#{kind}>'


def test_a_value_that_is_written_in_another_way_is_the_same_triple_and_keeps_its_time(ask: Ask) -> None:
    stream = [(1000, f":a :p {typed('01', 'integer')}"), (2000, ":a :p 1"), (5000, ":b :p 2.50")]
    text = f"SELECT ?x (<freshkeeper:timestamp>(?x, :p, ?n) AS ?at) {W} [RANGE PT4S STEP PT1S] {WHERE}"
    found = ask(text, stream)
    assert (found[1000], found[5000]) == (["a 1000"], ["a 2000", "b 5000"])
    assert ask(f"SELECT ?x {W} [ELEMENTS 2] {WHERE}", [*stream[:2], (3000, ":b :p 2")])[3000] == ["a", "b"]


def test_a_triple_of_a_static_graph_stays_when_a_window_lets_go_of_it_written_in_another_way(ask: Ask) -> None:
    text = "SELECT ?x FROM :g FROM WINDOW ON :s [RANGE PT1S STEP PT1S] { ?x :p ?n }"
    stream = [(1000, f":a :p {typed('01', 'integer')}"), (3000, ":b :p 2")]
    assert ask(text, stream, {"g": f":a :p {typed('001', 'integer')}"})[3000] == ["a", "b"]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.from_regex(r"[-+]?\d{1,3}(\.\d{1,3})?(Z|e\d)?", fullmatch=True), st.text(max_size=5)),
            st.sampled_from(["integer", "int", "decimal", "double", "boolean", "dateTime", "string", "mine"]),
        ),
        max_size=12,
    )
)
def test_many_literals_are_read_as_the_store_reads_each(written: list[tuple[str, str]]) -> None:
    node = ox.NamedNode("http://e/x")
    literals = [ox.Literal(v, datatype=ox.NamedNode(f"http://www.w3.org/2001/XMLSchema#{k}")) for v, k in written]
    triples = [ox.Triple(ox.BlankNode("b"), node, literal) for literal in literals]
    terms: list[ox.Literal | ox.Triple] = [*literals, ox.Literal("x", language="en"), *triples]
    quads = [ox.Quad(node, node, term, node) for term in terms]
    store = ox.Store()
    store.extend(quads)
    assert set(stored_quads(quads)) == set(store)
    assert [stored_term(quad.object) for quad in quads] == [quad.object for quad in stored_quads(quads)]


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ("WINDOW ?w { MINUS { ?a :p ?b } ?a :p ?b }", r"and MINUS \{ \?a :p \?b \} does not know it"),
        ("WINDOW ?w { ?a :p ?b MINUS { ?c :p ?d } }", r"and MINUS \{ \?c :p \?d \} does not know it"),
        ("WINDOW ?w { OPTIONAL { ?a :p ?b } ?a :p ?c }", "and OPTIONAL"),
        ("WINDOW ?w { { ?a :p ?b } UNION { BIND(1 AS ?b) } }", r"line \d+, column \d+: the graph of WINDOW \?w \{"),
        ("WINDOW ?w { ?a :p ?b } GRAPH ?g { SELECT (COUNT(*) AS ?n) { ?a :p ?c } }", "and SELECT"),
        ("WINDOW ?w { ?a :p ?b } OPTIONAL { GRAPH ?g { VALUES ?c { 1 } } }", r"and GRAPH \?g \{ VALUES"),
    ],
)
def test_a_block_whose_graph_is_a_variable_is_refused_where_the_library_misreads_it(
    run_query: Callable[..., object], block: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        run_query(
            f"SELECT * FROM NAMED :n FROM NAMED WINDOW :w ON :s [RANGE 1s STEP 1s] {{ {block} }}", [(1000, ":a :p 1")]
        )


def test_a_block_whose_graph_is_a_variable_looks_at_each_graph_alone(ask: Ask) -> None:
    windows = "FROM NAMED WINDOW :v ON :s [RANGE 2s STEP 1s] FROM NAMED WINDOW :w ON :s [RANGE 1s STEP 1s]"
    block = "WINDOW ?w { ?a :p ?b OPTIONAL { ?a :q ?c } MINUS { ?a :r ?d } FILTER EXISTS { ?a :s ?e } }"
    elements = [(1000, ":a :p 1 ; :q 2 ; :s 3"), (1500, ":b :p 1 ; :s 3 . :a :r 1"), (2000, ":c :q 5")]
    assert ask(f"SELECT ?w ?a ?c {windows} {{ {block} }}", elements)[2000] == ["v b -", "w b -"]
