"""A thousand different queries with SERVICE over one stream, under one budget, against a real server."""

import random
from pathlib import Path

import pytest
from servers import Oxigraph, Proxy

from freshkeeper.maintenance.runtime.query_set import read_queries
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session

E = "http://example.org/"
QUERIES, TOPICS, USERS, BUDGET, INSTANTS = 1_000, 100, 200, 60, 3


def text(n: int) -> str:
    """No two of them are the same SERVICE pattern."""
    return f"""PREFIX : <{E}> SELECT ?topic ?n FROM NAMED WINDOW :w ON :s [RANGE PT{1 + n % 3}S STEP PT1S]
    {{ WINDOW :w {{ ?post :topic ?topic . ?post :topic :t{n % TOPICS} }}
       SERVICE :blog {{ ?topic :discussedBy ?u . ?u :followers ?n FILTER(?n != {USERS + n}) }} }}"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_thousand_queries_spend_what_the_server_counts_and_never_more_than_was_paid(tmp_path: Path) -> None:
    rng = random.Random(3)
    edges = " ".join(f":t{t} :discussedBy :u{u} ." for t in range(TOPICS) for u in rng.sample(range(USERS), 3))
    server = Oxigraph(f"PREFIX : <{E}> {edges} " + " ".join(f":u{u} :followers {u} ." for u in range(USERS)))
    proxy = Proxy(server.port, lambda n: "broken" if n % 7 == 0 else "")
    posts = [(t, f"<{E}t{rng.randrange(TOPICS)}>") for t in range(100, 1000 * INSTANTS + 500, 10)]
    (tmp_path / "posts.nq").write_text("".join(f"{t}\t<{E}p{t}> <{E}topic> {topic} .\n" for t, topic in posts))
    config = config_of({
        "queries": {f"q{n}": text(n) for n in range(QUERIES)}, "streams": {f"{E}s": str(tmp_path / "posts.nq")},
        "sources": {f"{E}blog": {"sparql": proxy.url, "volatile": [f"{E}followers"], "failures": 1_000_000}},
        "shared": True, "budget": BUDGET, "policy": "lru",
    })  # fmt: skip
    views, spending, answered = set(), [], 0
    try:
        session = Session(config, read_queries(config, lambda name, error: pytest.fail(f"{name}: {error}")),
                          observers=[lambda _, manager, __: views.add(manager)])  # fmt: skip
        for result in session.results():
            answered += 1
            assert proxy.count <= BUDGET * result.t / 1000
            spending.append((result.t, proxy.count))
    finally:
        proxy.stop()
        server.stop()
    assert (answered, len(views)) == (QUERIES * INSTANTS, QUERIES)
    assert sum(manager.ledger.spent for manager in views) == proxy.count
    assert dict(spending) == {1000 * k: BUDGET * k for k in range(1, INSTANTS + 1)}, "all of the budget is used"
    assert session.failures == {}
