"""V^SN and V^SR of SERVICE patterns, worked by hand; where there is no split, the error says which pattern and why."""

import pyoxigraph as ox
import pytest

from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.service_split import Split, split
from freshkeeper.maintenance.query.syntax.query_errors import SplitError

E = "http://e/"


def divide(pattern: str, volatile: str, window: str) -> Split:
    """Split `SERVICE <http://e/b> { pattern }`; names are given bare."""
    query = parse(f"PREFIX : <{E}> PREFIX unused: <http://u/> SELECT * {{ SERVICE :b {{ {pattern} }} }}")
    return split(query.services[0], [E + name for name in volatile.split()], window.split())


def test_the_example_of_the_semantics() -> None:
    parts = divide("?topic :discussedBy ?user . ?user :followers ?n", "followers", "topic post")
    assert (parts.sn, parts.sr, parts.key, parts.values) == (("topic",), ("user", "n"), ("user",), ("n",))
    assert (parts.edge, parts.one_to_one) == (("topic", "user"), False)
    assert parts.static == "?topic :discussedBy ?user"
    assert parts.dynamic == "?user :followers ?n"
    body = "SELECT ?user ?n WHERE { VALUES ?user { ... } ?user :followers ?n }"
    assert parts.refresh_query() == f"PREFIX : <{E}>\n{body}"
    assert parts.refresh_query([[ox.NamedNode(f"{E}ann")], [ox.Literal(7)]]).endswith(
        'VALUES ?user { <http://e/ann> "7"^^<http://www.w3.org/2001/XMLSchema#integer> } ?user :followers ?n }'
    )
    assert parts.edge_query([[ox.NamedNode(f"{E}rsp")]]).endswith(
        "SELECT ?topic ?user WHERE { VALUES ?topic { <http://e/rsp> } ?topic :discussedBy ?user }"
    )


def test_a_window_that_gives_the_key_itself_makes_the_join_one_to_one() -> None:
    parts = divide("?user :followers ?n", "followers", "user")
    assert (parts.sn, parts.sr, parts.key, parts.static) == (("user",), ("user", "n"), ("user",), "")
    with pytest.raises(SplitError, match="1:1"):
        parts.edge_query()


def test_the_parts_joined_give_what_the_pattern_gives() -> None:
    """The join of edges and SRs is the SERVICE's answer, evaluated on one small source."""
    pattern = (
        "?topic :discussedBy ?user ; :title ?t . ?user :followers ?n . FILTER(?n > 1) FILTER(?t != 'no') "
        "OPTIONAL { ?user :mood ?m } MINUS { ?user :blocked true }"
    )
    parts = divide(pattern, "followers mood blocked", "topic")
    data = (
        ":a :discussedBy :u, :v, :x ; :title 'A' . :b :discussedBy :u ; :title 'no' . :c :discussedBy :v ; :title 'C' ."
        ":u :followers 5 ; :mood 'good' . :v :followers 3 . :x :followers 9 ; :blocked true . :y :followers 4 ."
    )
    store = ox.Store()
    store.load(f"@prefix : <{E}> . {data}".encode(), format=ox.RdfFormat.TURTLE)
    topics = [[ox.NamedNode(E + name)] for name in "abc"]
    edges = rows(store, parts.edge_query(topics))
    keys = sorted({row["user"] for row in edges})
    srs = rows(store, parts.refresh_query([[key] for key in keys]))
    joined = [{**edge, **sr} for edge in edges for sr in srs if edge["user"] == sr["user"]]
    whole = rows(store, f"PREFIX : <{E}> SELECT * {{ {pattern} }}")
    assert sorted(joined, key=str) == sorted(whole, key=str)
    assert len(whole) == 3
    assert any("m" in row for row in whole)


def rows(store: ox.Store, query: str) -> list[dict[str, str]]:
    found = store.query(query)
    assert isinstance(found, ox.QuerySolutions)
    names = [variable.value for variable in found.variables]
    return [{name: str(row[name]) for name in names if row[name] is not None} for row in found]


@pytest.mark.parametrize(
    ("pattern", "volatile", "window", "sn", "key", "values", "static"),
    [
        # What hangs on a volatile triple is refreshed with it.
        ("?post :likedBy ?user . ?user :name ?nm", "likedBy", "post", "post", "post", "nm user", ""),
        # Semicolons and commas are triples of their own.
        ("?t :by ?u ; :size ?z . ?u :n ?a, ?b ; :m ?c", "n", "t", "t", "u", "a b",
         "?t :by ?u . ?t :size ?z . ?u :m ?c"),
        # Two volatile predicates of one key make one SR.
        ("?t :by ?u . ?u :n ?a . ?u :m ?b", "n m", "t", "t", "u", "a b", "?t :by ?u"),
        # The key may be several variables.
        ("?t :by ?u . ?t :to ?v . ?u :near ?v", "near", "t", "t", "u v", "", "?t :by ?u . ?t :to ?v"),
        # A value that the window gives is part of the key: a refresh asks whether it still holds.
        ("?u :n ?a", "n", "u a", "a u", "a u", "", ""),
        # Blocks go where their volatile predicates send them.
        ("?t :by ?u . OPTIONAL { ?u :n ?a }", "n", "t", "t", "u", "a", "?t :by ?u"),
        ("?t :by ?u . OPTIONAL { ?t :title ?x } ?u :n ?a", "n", "t", "t", "u", "a",
         "?t :by ?u . OPTIONAL { ?t :title ?x }"),
        ("?t :by ?u { ?u :n ?a } UNION { ?u :m ?a }", "m", "t", "t", "u", "a", "?t :by ?u"),
        ("{ ?t :by ?u } UNION { ?t :to ?u } ?u :n ?a", "n", "t", "t", "u", "a", "{ ?t :by ?u } UNION { ?t :to ?u }"),
        ("?t :by ?u . FILTER NOT EXISTS { ?u :blocked true }", "blocked", "t", "t", "u", "", "?t :by ?u"),
        ("?t :by ?u . MINUS { ?u :blocked true }", "blocked", "t", "t", "u", "", "?t :by ?u"),
        ("?t :by ?u . ?u :n ?a . VALUES ?u { :x :y }", "n", "t", "t", "u", "a", "?t :by ?u . VALUES ?u { :x :y }"),
        ("?t :by ?u . ?u :n ?a . BIND(?a * 2 AS ?b)", "n", "t", "t", "u", "a b", "?t :by ?u"),
        ("?t :by ?u . ?u :n ?a . BIND(STR(?u) AS ?b)", "n", "t", "t", "u", "a", "?t :by ?u . BIND(STR(?u) AS ?b)"),
        ("{ SELECT ?t (SUM(?a) AS ?sum) { ?t :by ?u . ?u :n ?a } GROUP BY ?t }", "n", "t", "t", "t", "sum", ""),
        ("GRAPH :g { ?t :by ?u . ?u :n ?a }", "n", "t", "t", "t", "a u", ""),
        # A nested node hides no volatile predicate; a path of still ones is static.
        ("?t :by/:of ?u . ?u :stat [ :n ?a ]", "n", "t", "t", "u", "a", "?t :by/:of ?u"),
        ("?t a :T . ?t :n ?a", "n", "t", "t", "t", "a", "?t a :T"),
        # What may be any predicate may be a volatile one.
        ("?t ?p ?a", "n", "t", "t", "t", "a p", ""),
        ("?t :by ?u . ?u ?p ?a", "n", "t", "t", "u", "a p", "?t :by ?u"),
        ("?t :by ?u . ?u !:name ?a", "n", "t", "t", "u", "a", "?t :by ?u"),
        ("?t :by ?u . ?u :stat [ ?p ?a ]", "n", "t", "t", "u", "a p", "?t :by ?u"),
        ("?t :by ?u . ?u :stat [ :p ?a ; ?p 1 ]", "n", "t", "t", "u", "a p", "?t :by ?u"),
        ("?t :by ?u . OPTIONAL { ?u :n ?a } MINUS { ?u ?p false }", "n", "t", "t", "u", "a", "?t :by ?u"),
        # Where that leaves no two parts, the pattern is refreshed as a whole.
        ("?t :by ?u . ?u ?p ?a . ?t ?q ?b", "n", "t", "t", "t", "a b p q u", ""),
        ("?t :by ?u ; :max ?z . ?u ?p ?a . FILTER(?a < ?z)", "n", "t", "t", "t", "a p u z", ""),
        ("{ ?t :by ?u } UNION { ?t :of ?v } ?u ?p ?a", "n", "t", "t", "t", "a p u v", ""),
    ],
)  # fmt: skip
def test_splits(pattern: str, volatile: str, window: str, sn: str, key: str, values: str, static: str) -> None:
    parts = divide(pattern, volatile, window)
    assert (" ".join(parts.sn), " ".join(parts.key), " ".join(parts.values), parts.static) == (sn, key, values, static)
    parse(parts.refresh_query().replace("...", ""))


@pytest.mark.parametrize(
    ("pattern", "volatile", "window", "says"),
    [
        ("?t :by/:n ?a", "n", "t", "property path of ?t :by/:n ?a"),
        ("?t :by ?u", "follower", "t", "no volatile predicate occurs in { ?t :by ?u }"),
        ("?t :followers ?u", "follower", "t", "did you mean 'http://e/followers'?"),
        ("?t :by ?u . ?u :n ?a", "n", "other", "the windows give ?other, the pattern has ?a, ?t, ?u"),
        ("?t :by ?u . ?x :n ?a", "n", "t", "?x :n ?a shares no variable with a window"),
        ("?t :by ?u . ?u :n ?a . ?t :m ?b", "n m", "t", "?u :n ?a shares no variable with the rest of the dynamic"),
        ("?t :by _:x . _:x :n ?a", "n", "t", "blank node _:x joins"),
        ("?t :by ?u ; :max ?z . ?u :n ?a . FILTER(?a < ?z)", "n", "t", "FILTER(?a < ?z) looks at what changes and at"),
        ("?t :by ?u ; :max ?z . ?u :n ?a . BIND(?a/?z AS ?r)", "n", "t", "BIND(?a/?z AS ?r) looks at"),
        ("?t :by ?u . ?u :n ?a . FILTER(?a > ?w)", "n", "t w", "FILTER(?a > ?w) uses ?w, which only the window gives"),
        ("?t :by ?u . OPTIONAL { ?u :n ?a }", "n", "t a", "OPTIONAL { ?u :n ?a } alone binds ?a"),
        ("OPTIONAL { ?u :n ?a }", "n", "u", "alone binds ?u"),
        ("{ ?t :by ?u } UNION { ?t :of ?v } ?u :n ?a", "n", "t", "does not always bind ?u"),
        ("?t :by ?u . SERVICE :c { ?u :n ?a }", "n", "t", "SERVICE inside a SERVICE"),
    ],
)  # fmt: skip
def test_no_split(pattern: str, volatile: str, window: str, says: str) -> None:
    with pytest.raises(SplitError) as caught:
        divide(pattern, volatile, window)
    assert str(caught.value).startswith("SERVICE <http://e/b>: ")
    assert says in str(caught.value)


def test_a_variable_endpoint_has_no_split() -> None:
    service = parse("SELECT * { ?t <a:at> ?e SERVICE ?e { ?t <a:n> ?a } }").services[0]
    with pytest.raises(SplitError, match=r"SERVICE \?e: the endpoint is the variable \?e"):
        split(service, ["a:n"], ["t"])


def test_a_blank_node_is_no_key() -> None:
    with pytest.raises(SplitError, match="blank node"):
        divide("?u :n ?a", "n", "u").refresh_query([[ox.BlankNode("b")]])


def test_comments_inside_a_pattern_do_not_swallow_the_rest_of_the_line() -> None:
    parts = divide("?t :by # who\n ?u . ?u :n ?a\n# end\n FILTER(?a > # more\n 1)", "n", "t")
    assert (parts.static, parts.dynamic) == ("?t :by ?u", "?u :n ?a . FILTER(?a > 1)")
