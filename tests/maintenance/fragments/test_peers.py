"""Real peers: our client against @ldf/server, Comunica against our server; the rows are those of the whole data."""

from collections import Counter

import pytest
from fragment_peers import LdfServer, by_comunica
from fragment_queries import PREFIX, QUERIES, SOCIAL, E
from pyoxigraph import RdfFormat, Store, parse, serialize

from freshkeeper.maintenance.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.query.sound import sound
from freshkeeper.maintenance.service.http.exchange import Deadline
from freshkeeper.maintenance.service.transport import Request

pytestmark = pytest.mark.slow
DATA = list(parse(f"PREFIX : <{E}> {SOCIAL} .", format=RdfFormat.TURTLE))
TRAINS = "".join(
    f"<{E}t{n}> <{E}delay> {n % 7} ; <{E}platform> '{n % 5}' ; <{E}sign> 'Town {n % 9}'@en .\n" for n in range(100)
)


def bag(rows):
    return Counter(tuple(sorted((name, str(term)) for name, term in row.items())) for row in rows)


def truth(quads, query):
    store = Store()
    store.extend(quads)
    found = store.query(sound(query))
    names = [variable.value for variable in found.variables]
    return bag({n: term for n, term in zip(names, row, strict=True) if term is not None} for row in found)


def counting():
    """A client's requests are counted where they are let through."""
    sent = []
    return sent, Deadline(go=lambda: sent.append(1) is None)


@pytest.fixture
def ldf(tmp_path):
    made = []

    def make(quads):
        file = tmp_path / "data.nq"
        file.write_bytes(serialize(quads, format=RdfFormat.N_QUADS))
        made.append(LdfServer(file))
        return made[-1]

    yield make
    for server in made:
        server.stop()


def test_our_client_has_the_rows_of_thirty_queries_from_ldf_server(ldf):
    client = FragmentsOverHttp(ldf(DATA).url)
    try:
        for query in QUERIES:
            found = client.carry(Request(PREFIX + query), 0, Deadline()).rows
            assert bag(found) == truth(DATA, PREFIX + query), query
    finally:
        client.close()


def test_comunica_has_the_rows_of_thirty_queries_from_our_server(sites):
    found = by_comunica(sites(DATA, per_page=4).url, [PREFIX + query for query in QUERIES])
    for query, rows in zip(QUERIES, found, strict=True):
        assert bag(rows) == truth(DATA, PREFIX + query), query


def test_a_hundred_trains_with_three_patterns_take_twelve_requests_at_most_of_either_server(sites, ldf):
    quads = list(parse(TRAINS, format=RdfFormat.TURTLE))
    query = f"SELECT * {{ ?x <{E}delay> ?d ; <{E}platform> ?p ; <{E}sign> ?s }}"
    for url in (sites(quads).url, ldf(quads).url):
        client, (sent, deadline) = FragmentsOverHttp(url), counting()
        try:
            assert bag(client.carry(Request(query), 0, deadline).rows) == truth(quads, query)
        finally:
            client.close()
        assert len(sent) <= 12
