"""Which names of a query are called as functions, wherever they stand."""

from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.query.function_calls import count_arguments, function_calls
from freshkeeper.maintenance.query.model import Form, Query, QueryExpression
from freshkeeper.maintenance.query.syntax.prologue import Prologue

TERMS = st.sampled_from(["?x", "1", "true", ":called", '"a,b"', "()"])
"""A name alone is not called; `()` is a list without members"""


def _lists(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, min_size=1, max_size=3).map(lambda members: f"( {' '.join(members)} )")


NODES = st.recursive(TERMS, lambda inner: st.one_of(_lists(inner), inner.map(lambda n: f"[ :list {n} ]")), max_leaves=4)
TRIPLES = st.tuples(st.sampled_from([":list", "a", "?p"]), NODES).map(lambda pair: f"?s {pair[0]} {pair[1]} .")


def _calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, min_size=1, max_size=3).map(lambda given: f":called{len(given)}({', '.join(given)})")


EXPRESSIONS = st.recursive(
    st.sampled_from(["?x", "1", ":called", ":called0()"]),
    lambda inner: st.one_of(
        _calls(inner),
        inner.map(lambda e: f"({e} + 1)"),
        inner.map(lambda e: f"STRLEN({e})"),
        inner.map(lambda e: f"?x IN ({e}, 2)"),
        TRIPLES.map(lambda triple: f"EXISTS {{ {triple} }}"),
    ),
    max_leaves=4,
)
ELEMENTS = st.one_of(
    TRIPLES,
    EXPRESSIONS.map(lambda e: f"FILTER({e})"),
    _calls(EXPRESSIONS).map(lambda e: f"FILTER {e}"),
    EXPRESSIONS.map(lambda e: f"BIND({e} AS ?y)"),
    st.just("VALUES (?x ?y) { (:called 1) }"),
    EXPRESSIONS.map(lambda e: f"{{ SELECT ?x ({e} AS ?z) {{ ?s :list (1) }} GROUP BY ?x :called1(?z) HAVING({e}) }}"),
)


@given(st.lists(ELEMENTS, max_size=4), EXPRESSIONS, st.sampled_from(["SELECT (@ AS ?e)", "CONSTRUCT { ?s :list (1) }"]))
def test_a_name_before_parentheses_is_called_in_an_expression_and_a_verb_in_a_triple_pattern(
    elements: list[str], expression: str, head: str
) -> None:
    query = Query(
        QueryExpression(
            Prologue(None, (("", "http://e/"),)),
            head.replace("@", expression),
            f"{{ {' '.join(elements)} }}",
            f"GROUP BY :called1(?s) ORDER BY DESC({expression})",
        ),
        Form(head.split()[0]),
    )
    tokens = query.expression.source.tokens
    found = list(function_calls(query))
    before = [n for n, token in enumerate(tokens.items[:-1]) if token.text[-1:].isdigit() and token.is_name]
    assert found == [(n, False) for n in before]
    assert [f":called{count_arguments(tokens, n + 1)}" for n, _ in found] == [tokens.items[n].text for n, _ in found]
