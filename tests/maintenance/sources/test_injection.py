"""No key can change what a refresh query means: it is found as it is, or it is not sent."""

from urllib.parse import parse_qs, urlsplit

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, QuerySolutions, RdfFormat, Store, parse

from freshkeeper.maintenance.fetching.endpoint import Order, Price
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.query.parser import parse as read_query
from freshkeeper.maintenance.query.service_split import split
from freshkeeper.maintenance.sources.pattern_source import pattern_fetcher
from freshkeeper.maintenance.sources.sparql_over_http import Method, SparqlOverHttp
from freshkeeper.maintenance.sources.transport import GraphQuery, Solutions, Transport

E = "http://example.org/"
QUERY = f"""PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :tag ?tag }} SERVICE :blog {{ ?user :likes ?tag . ?user :followers ?n }} }}"""
(SERVICE,) = read_query(QUERY).services
PARTS = split(SERVICE, [f"{E}likes", f"{E}followers"], ["post", "tag"])
LIKES, FOLLOWERS = NamedNode(E + "likes"), NamedNode(E + "followers")
NASTY = st.sampled_from(
    ['"', "'", "\\", "{", "}", ">", "<", "\n", "\r", "#", "?n", ". ", '"""', "\\u0022", "UNION", "%3E"]
)
TEXTS = st.lists(st.one_of(NASTY, st.characters(exclude_categories=["Cs"])), max_size=12).map("".join)


def keys() -> st.SearchStrategy[Literal]:
    literals = TEXTS.map(Literal)
    tagged = st.tuples(TEXTS, st.sampled_from(["en", "de-AT"])).map(lambda pair: Literal(pair[0], language=pair[1]))
    typed = TEXTS.map(lambda text: Literal(text, datatype=NamedNode(E + "type")))
    return st.one_of(literals, tagged, typed)


@settings(max_examples=examples(300))
@given(keys(), keys())
def test_a_literal_finds_itself_and_nothing_else(key: Literal, other: Literal) -> None:
    store = Store()
    for number, (name, tag) in enumerate((("ann", key), ("bob", other))):
        store.add(Quad(NamedNode(E + name), LIKES, tag))
        store.add(Quad(NamedNode(E + name), FOLLOWERS, Literal(number)))
    found = store.query(PARTS.refresh_query([(key,)]))
    assert isinstance(found, QuerySolutions)
    names = {str(row["user"]) for row in found}
    assert names == ({f"<{E}ann>", f"<{E}bob>"} if key == other else {f"<{E}ann>"})


@settings(max_examples=examples(60))
@given(st.lists(keys(), min_size=1, max_size=4, unique_by=str), st.sampled_from(list(Method)))
def test_what_goes_over_the_wire_is_the_query_to_the_letter(tags: list[Literal], method: Method) -> None:
    query = PARTS.refresh_query([(tag,) for tag in tags])
    call = SparqlOverHttp("http://localhost/query", method=method).call(query)
    sent = urlsplit(call.url).query if call.body is None else call.body.decode()
    assert parse_qs(sent, keep_blank_values=True) == {"query": [query]}
    assert call.method == ("GET" if call.body is None else "POST")
    assert not any(c in call.url for c in "\r\n ")
    assert all("\n" not in value for value in call.headers.values())


class Silent:
    """A service that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[GraphQuery] = []

    def close(self) -> None:
        pass

    def select(self, query: GraphQuery, now: int, deadline: Deadline) -> Solutions:
        self.asked.append(query)
        return Solutions()


@pytest.mark.parametrize("bad", ['x"y', "a> <b", "{x}", "a|b", "a\\b", "a^b", "a`b"])
def test_an_iri_that_is_none_is_refused_before_anything_is_sent(bad: str) -> None:
    line = f"<{E}s> <{E}p> <{E}{bad}> .".replace("a> <b", "a\\u003E\\u003Cb").replace("a\\b", "a\\\\b")
    try:
        (quad,) = parse(line, format=RdfFormat.N_TRIPLES, lenient=True)
    except SyntaxError:
        with pytest.raises(ValueError, match="IRI"):
            NamedNode(E + bad)
        return
    transport = Silent()
    endpoint = pattern_fetcher(PARTS, Transport(transport), Price())
    delivery = endpoint.deliver(Order(0, [(quad.object,)], [(quad.object,)]))
    assert "is no IRI" in str(delivery.copies[0].error)
    assert "is no IRI" in str(delivery.expanded[0].error)
    assert (transport.asked, delivery.spent) == ([], 0.0)


def test_a_blank_node_is_refused() -> None:
    transport = Silent()
    delivery = pattern_fetcher(PARTS, Transport(transport)).deliver(Order(0, [(BlankNode("a"),)]))
    assert "blank node" in str(delivery.copies[0].error)
    assert transport.asked == []
