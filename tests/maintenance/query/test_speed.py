"""Registering is fast enough for many queries; the time is an upper bound with room for a busy machine."""

import time

from freshkeeper.maintenance.query import parse

TEXT = """PREFIX : <http://example.org/>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
REGISTER RSTREAM :out{} AS
SELECT ?topic (SUM(?n) AS ?reach)
FROM NAMED WINDOW :posts ON :stream [RANGE PT4S STEP PT1S]
WHERE {{
  WINDOW :posts {{ ?post :topic ?topic ; :value ?v . FILTER(?v > "{}"^^xsd:integer) }}
  SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }}
}}
GROUP BY ?topic"""


def test_a_thousand_queries_register_in_a_second() -> None:
    start = time.process_time()
    queries = [parse(TEXT.format(n, n)) for n in range(1000)]
    assert time.process_time() - start < 1.0
    assert len({query.output for query in queries}) == 1000
