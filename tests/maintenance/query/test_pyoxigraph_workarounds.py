"""What pyoxigraph evaluates otherwise than SPARQL says: the text that it gets instead, against the algebra by hand."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyoxigraph as ox
import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pyoxigraph import Literal, NamedNode
from terms import rows_of, solutions, text_of

from freshkeeper.maintenance.query.alternatives import has_inseparable
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session

E = "http://e/"
DATA = [("a", "p", 1), ("b", "p", 2), ("a", "q", 2), ("b", "q", 1), ("c", "q", 3), ("a", "r", 1), ("a", "r", 2)]
LINKS = [("a", "p", "b"), ("a", "q", "b"), ("b", "p", "c"), ("b", "r", "c"), ("c", "q", "a"), ("a", "r", "a")]

Element: TypeAlias = tuple[Any, ...]
"""Of a group: its kind, and its parts."""
NAMES = st.sampled_from(["x", "y", "z", "w"])
TRIPLES = st.tuples(
    st.just("TRIPLE"), st.sampled_from(["?x", "?y", ":a", ":b"]), st.sampled_from("pqr"), st.sampled_from(["?z", "?w"])
)
VALUES = st.tuples(st.just("VALUES"), NAMES, st.sampled_from([1, 2, 3]))
EXPRESSIONS = st.one_of(
    st.tuples(st.just("BIND"), NAMES, st.sampled_from(["k", "l"])),
    st.tuples(st.just("FILTER"), st.sampled_from(["BOUND", "!BOUND"]), NAMES),
    st.tuples(st.just("EXISTS"), TRIPLES),
)


def blocks(groups: SearchStrategy[list[Element]]) -> SearchStrategy[object]:
    return st.one_of(
        st.tuples(st.sampled_from(["OPTIONAL", "OPTIONAL", "GROUP", "MINUS", "SELECT"]), groups),
        st.tuples(st.just("UNION"), groups, groups),
    )


GROUPS = st.recursive(
    st.lists(st.one_of(TRIPLES, TRIPLES, VALUES, EXPRESSIONS), min_size=1, max_size=3),
    lambda groups: st.lists(st.one_of(TRIPLES, blocks(groups), VALUES, EXPRESSIONS), min_size=1, max_size=4),
    max_leaves=6,
)


def written(group: Sequence[Element]) -> str:
    return " ".join(map(_written, group))


def _written(element: Element) -> str:
    kind, *parts = element
    if kind == "TRIPLE":
        return f"{parts[0]} :{parts[1]} {parts[2]} ."
    if kind == "VALUES":
        return f"VALUES ?{parts[0]} {{ {parts[1]} }}"
    if kind == "BIND":
        return f"BIND(COALESCE(?{parts[0]}, 0) AS ?{parts[1]})"
    if kind == "FILTER":
        return f"FILTER({parts[0]}(?{parts[1]}))"
    if kind == "EXISTS":
        return f"FILTER EXISTS {{ {_written(parts[0])} }}"
    if kind == "UNION":
        return f"{{ {written(parts[0])} }} UNION {{ {written(parts[1])} }}"
    shapes: dict[str, str] = {"GROUP": "{{ {} }}", "SELECT": "{{ SELECT ?x ?z ?k {{ {} }} }}"}
    return shapes.get(str(kind), f"{kind} {{{{ {{}} }}}}").format(written(parts[0]))


def evaluated(group: Sequence[Element]) -> list[dict[str, object]]:
    """The solutions of a group, as 18.6 of the SPARQL specification has it."""
    found: list[dict[str, object]] = [{}]
    for element in group:
        kind, *parts = element
        if kind == "OPTIONAL":
            inner = evaluated([e for e in parts[0] if e[0] not in ("FILTER", "EXISTS")])
            found = [
                extended
                for one in found
                for extended in [m for m in joined([one], inner) if holds(parts[0], m)] or [one]
            ]
        elif kind == "MINUS":
            inner = evaluated(parts[0])
            found = [a for a in found if not any(a.keys() & b.keys() and joined([a], [b]) for b in inner)]
        elif kind == "BIND":
            found = [one | {parts[1]: one.get(parts[0], 0)} for one in found]
        elif kind not in ("FILTER", "EXISTS"):
            found = joined(found, found_by(kind, parts))
    return [one for one in found if holds(group, one)]


def found_by(kind: str, parts: Sequence[Any]) -> list[dict[str, Any]]:
    if kind == "TRIPLE":
        subject, predicate, value = parts
        rows = ({subject: f":{s}", value: o} for s, p, o in DATA if p == predicate)
        return [{k[1:]: v for k, v in r.items() if k[0] == "?"} for r in rows if r.get(subject) in (subject, r[subject])
                and (subject[0] == "?" or r[subject] == subject)]  # fmt: skip
    if kind == "VALUES":
        return [{parts[0]: parts[1]}]
    found = [solution for part in parts for solution in evaluated(part)]
    return [{k: v for k, v in one.items() if k in "xzk"} for one in found] if kind == "SELECT" else found


def joined(left: list[dict[str, object]], right: list[dict[str, object]]) -> list[dict[str, object]]:
    return [a | b for a in left for b in right if all(a[name] == b[name] for name in a.keys() & b.keys())]


def holds(group: Sequence[Element], solution: dict[str, object]) -> bool:
    tests = [e for e in group if e[0] in ("FILTER", "EXISTS")]
    return all(
        bool(joined([solution], found_by("TRIPLE", e[1][1:])))
        if e[0] == "EXISTS"
        else (e[2] in solution) == (e[1] == "BOUND")
        for e in tests
    )


def bag(rows: Iterable[dict[str, object]]) -> Counter[object]:
    return Counter(frozenset(row.items()) for row in rows)


def asked(text: str, data: Sequence[tuple[str, str, int | str]], graphs: str = "") -> Counter[Any]:
    store = ox.Store()
    everywhere: list[ox.DefaultGraph | ox.NamedNode] = [ox.DefaultGraph(), *(ox.NamedNode(E + name) for name in graphs)]
    store.extend(ox.Quad(ox.NamedNode(E + s), ox.NamedNode(E + p), term(o), g) for s, p, o in data for g in everywhere)
    found = solutions(store.query(rewrite_for_pyoxigraph(f"PREFIX : <{E}> {text}")))
    names = [variable.value for variable in found.variables]
    return bag({n: plain(t) for n, t in zip(names, row, strict=True) if t is not None} for row in found)


def term(value: int | str) -> Literal | NamedNode:
    return ox.Literal(value) if isinstance(value, int) else ox.NamedNode(E + value)


def plain(found: Literal | NamedNode) -> int | str:
    return int(found.value) if isinstance(found, ox.Literal) else ":" + found.value.removeprefix(E)


def triple(text: str) -> Element:
    return ("TRIPLE", *text.split())


SHOWS_Z = [triple("?x q ?z"), ("OPTIONAL", [triple(":b q ?w")])]
"""Only the innermost block binds ?w again."""


@settings(max_examples=examples(300))
@given(GROUPS)
@example([triple(":a r ?w"), ("OPTIONAL", [("BIND", "w", "k")]), triple("?x q ?w")])
@example([triple("?y r ?w"), ("OPTIONAL", SHOWS_Z), triple(":b p ?w")])
@example([triple("?y r ?w"), ("FILTER", "!BOUND", "z"), ("OPTIONAL", SHOWS_Z), triple(":b p ?w")])
@example([triple("?y p ?w"), ("GROUP", [triple("?x r ?w"), ("OPTIONAL", [("BIND", "y", "k")])])])
@example([triple("?x q ?w"), ("OPTIONAL", [triple(":b q ?z"), ("OPTIONAL", [("BIND", "x", "k")])])])
@example([("GROUP", [("EXISTS", triple("?x p ?z")), triple("?x q ?w"), triple("?y q ?w")]), triple("?y q ?z")])
@example([triple("?x q ?w"), ("OPTIONAL", [("MINUS", [triple("?x p ?w")]), triple("?y p ?z")]), triple("?x r ?w")])
@example([triple("?x q ?z"), ("OPTIONAL", [("UNION", [("VALUES", "w", 2)], SHOWS_Z)]), ("VALUES", "w", 1)])
def test_groups_mean_what_the_algebra_says(group: Sequence[Element]) -> None:
    try:
        found = asked(f"SELECT * {{ {written(group)} }}", DATA)
    except SyntaxError:  # BIND of a name that is there already
        return
    assert found == bag(evaluated(group))


PATHS = st.recursive(
    st.sampled_from("pqr"),
    lambda paths: st.one_of(
        st.tuples(st.just("|"), paths, paths), st.tuples(st.just("/"), paths, paths), st.tuples(st.just("^"), paths)
    ),
    max_leaves=4,
)


def path_text(path: Any) -> str:
    if isinstance(path, str):
        return f":{path}"
    kind, *parts = path
    return f"^({path_text(parts[0])})" if kind == "^" else f"({path_text(parts[0])}{kind}{path_text(parts[1])})"


def pairs(path: Any) -> list[tuple[str, str]]:
    if isinstance(path, str):
        return [(s, o) for s, p, o in LINKS if p == path]
    kind, *parts = path
    first, *others = map(pairs, parts)
    if kind == "^":
        return [(o, s) for s, o in first]
    return first + others[0] if kind == "|" else [(s, o) for s, m in first for n, o in others[0] if m == n]


@settings(max_examples=examples(200))
@given(PATHS)
def test_a_path_has_every_way_that_it_can_go(path: object) -> None:
    expected = bag({"x": f":{s}", "y": f":{o}"} for s, o in pairs(path))
    assert asked(f"SELECT * {{ ?x {path_text(path)} ?y }}", LINKS) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("?x (:p|:p) _:b", "?x (:p|:p) ?b"),
        ("?x :p|:q _:b . _:b :p|:r ?y", "?x :p|:q ?b . ?b :p|:r ?y"),
        (
            "?x :q ?z ; :p|:q _:b , ?y . FILTER(?x != ?y) ?y :r ?w",
            "?x :q ?z ; :p|:q ?b , ?y . FILTER(?x != ?y) ?y :r ?w",
        ),
        ("?x :r [ :p|:q ?y ; :r|:r ?z ]", "?x :r ?b . ?b :p|:q ?y ; :r|:r ?z"),
        ("[ :p|:q ?y ] :r ?z", "?b :p|:q ?y ; :r ?z"),
        ("[] :p|:q|:r ?y", "?b :p|:q|:r ?y"),
        ("?x (:p|:q)/(:r|:r) _:b . _:c :p|:q _:d . ?x :r _:e", "?x (:p|:q)/(:r|:r) ?b . ?c :p|:q ?d . ?x :r ?e"),
        ("{ ?x :p|:q _:b } UNION { _:c :p|:q ?x }", "{ ?x :p|:q ?b } UNION { ?c :p|:q ?x }"),
        ("GRAPH ?g { ?x :p|:q _:b }", "GRAPH ?g { ?x :p|:q ?b }"),
        ("GRAPH ?x { ?y :p|:q _:b } ?x :p ?z", "GRAPH ?x { ?y :p|:q ?b } ?x :p ?z"),
    ],
)
def test_a_blank_node_beside_alternatives_is_a_variable_that_is_not_shown(text: str, same: str) -> None:
    names = sorted({name for name in "gxyzw" if f"?{name}" in text})
    found = asked(f"SELECT * {{ {text} }}", LINKS, "abg")
    assert found == asked(f"SELECT {' '.join(f'?{name}' for name in names)} {{ {same} }}", LINKS, "abg")
    assert found
    assert not has_inseparable(parse(f"PREFIX : <{E}> SELECT * {{ {text} }}").group, True)


@pytest.mark.parametrize(
    ("text", "count"), [("_:a :p|:q _:b", 4), (":a (:p|:p) _:b", 2), ("[] :p|:q _:b . _:b :p|:r|:q [ :r _:c ]", 4)]
)
def test_blank_nodes_that_join_no_variable_count_where_the_query_does_not_show_all(text: str, count: int) -> None:
    (found,) = asked(f"SELECT (COUNT(*) AS ?n) {{ {text} }}", LINKS)
    assert dict(found) == {"n": count}
    assert not has_inseparable(parse(f"PREFIX : <{E}> SELECT ?x {{ {text} }}").group, False)
    assert asked(f"SELECT * {{ {text} }}", LINKS)


@pytest.mark.parametrize("text", ["_:a :p|:q _:b", "<< _:b :p ?x >> :p|:q _:b", "?x " + ":p|" * 50 + ":q _:b"])
def test_where_a_blank_node_cannot_be_hidden_the_alternatives_stay(text: str) -> None:
    query = f"PREFIX : <{E}> SELECT * {{ {text} }}"
    assert has_inseparable(parse(query).group, True)
    assert rewrite_for_pyoxigraph(query) == query


@pytest.mark.parametrize(
    ("path", "count"),
    [
        (":p|:q", 1 + 1 + 1 + 1), ("!(:p|^:p)", 4 + 4), ("!:p", 4), ("!(:p|:q)", 2), ("!^:p", 4), ("a|:p", 2),
        ("(:p|:q)/:r", 2 + 1), ("(:p|:q)+", 9), ("(:p|:q)?", 3 + 3), ("^(:p|:q)|:r", 4 + 2), ("<http://e/p>|:p", 4),
    ],
)  # fmt: skip
def test_what_repeats_has_each_pair_once_and_what_does_not_has_all(path: str, count: int) -> None:
    assert sum(asked(f"SELECT * {{ ?x {path} ?y }}", LINKS).values()) == count


def test_the_other_triples_of_a_subject_stay() -> None:
    text = "?x :p ?y ; :p|:q ?z , ?w ; :r [ :q ?v ] . FILTER(?v != ?w)"
    apart = (
        "?x :p ?y { ?x :p ?z } UNION { ?x :q ?z } { ?x :p ?w } UNION { ?x :q ?w } ?x :r ?b . ?b :q ?v FILTER(?v != ?w)"
    )
    assert asked(f"SELECT ?x ?y ?z ?w ?v {{ {text} }}", LINKS) == asked(f"SELECT ?x ?y ?z ?w ?v {{ {apart} }}", LINKS)


def test_texts_without_such_a_thing_stay_as_they_are() -> None:
    for text in (
        "SELECT * { ?x :p ?y OPTIONAL { ?y :q ?z OPTIONAL { ?z :r ?w } } }",
        "SELECT * { ?x :p ?y OPTIONAL { ?y :q ?z FILTER(?z > 1) } ?y :r ?w }",
        "SELECT * { ?x (:p|:q)+ ?y FILTER(?x = 1 || ?y = 2) FILTER NOT EXISTS { ?x :r ?y } }",
        "CONSTRUCT { ?x :p ?y } WHERE { ?x :p ?y OPTIONAL { ?y :q ?z } }",
    ):
        assert rewrite_for_pyoxigraph(text) == text


def from_view(folder: Path, text: str, stream: str) -> list[tuple[list[str], float]]:
    (folder / "blog.ttl").write_text("@prefix : <http://e/> . :jazz :fans 7 .")
    (folder / "blog.yaml").write_text("data: blog.ttl\nvolatile: http://e/fans\n")
    (folder / "s.nq").write_text(stream)
    window, service = "FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT1S]", "SERVICE :blog { ?t :fans ?n }"
    text = f"PREFIX : <{E}> {text.replace('WINDOWS', window).replace('ASKED', service)}"
    given = {"streams": {f"{E}s": str(folder / "s.nq")}, "sources": {f"{E}blog": str(folder / "blog.yaml")}}
    (result,) = Session(config_of({"query": text, **given}), parse(text)).results()
    assert result.freshness is not None
    return [
        ([text_of(term) for term in row], f.probability)
        for row, f in zip(rows_of(result), result.freshness, strict=True)
    ]


@pytest.mark.parametrize(
    ("pattern", "sure"),
    [
        ("?x :p|:q ?t", 1.0),
        ("_:b :p|:q ?t", 1.0),
        ("?x :r [ :p|:q ?t ]", 1.0),
        ("?x " + ":p|" * 50 + ":q ?t", 0.0),
    ],
)
def test_no_answer_is_sure_where_alternatives_are_too_many(tmp_path: Path, pattern: str, sure: float) -> None:
    stream = "1000\t<http://e/x> <http://e/p> <http://e/jazz> .\n1000\t<http://e/y> <http://e/r> <http://e/x> .\n"
    text = f"SELECT ?n WINDOWS WHERE {{ WINDOW :w {{ {pattern} }} ASKED }}"
    assert from_view(tmp_path, text, stream) == [(["7"], sure)]
    assert from_view(tmp_path, text.replace("SELECT", "SELECT DISTINCT"), stream) == [(["7"], 1.0)]


def test_from_the_view_an_expression_sees_its_own_block_alone(tmp_path: Path) -> None:
    """The SERVICE is a VALUES block when the query is evaluated, behind an OPTIONAL that must not see it."""
    text = "SELECT ?n ?k WINDOWS WHERE { WINDOW :w { ?x :at ?t } OPTIONAL { BIND(COALESCE(?n, 0) AS ?k) } ASKED }"
    assert from_view(tmp_path, text, "1000\t<http://e/x> <http://e/at> <http://e/jazz> .\n") == [(["7", "0"], 1.0)]


def test_exists_in_a_bind_sees_no_value_that_a_later_block_gives() -> None:
    exists = "?x :p ?y BIND(EXISTS { ?x :q ?k } AS ?e)"
    for later in ("{ ?x :p ?z BIND(:nowhere AS ?k) }", "VALUES (?x ?k) { (:a :nowhere) }"):
        found = asked(f"SELECT ?x ?k {{ {exists} {later} FILTER(?e) }}", LINKS)
        right = asked(f"SELECT ?x ?k {{ {{ SELECT ?x ?e {{ {exists} }} }} {later} FILTER(?e) }}", LINKS)
        assert found == right
        assert sum(found.values()) == 1
