"""ISTREAM of answers with SERVICE: what an evaluation costs while the window grows and what changes stays the same.

python benchmarks/service_changes.py          windows of up to 20,000 keys, some minutes
python benchmarks/service_changes.py --long   one of 100,000 keys and a million edges as well

Ten edges to every key, 25 keys to every entry. Between two evaluations 200 posts come and 200 go, each of another key,
so that a window of 100 s has 20,000 keys, and 400 entries are fetched again. Told is what the evaluation costs beside
its requests: finding what the query says and concluding what the view knows, and apart from that the view's decision,
which looks at all entries and so grows with them.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyoxigraph as ox
from stopwatch import ratios, show

from freshkeeper import BudgetRule, Price, Source
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.service_answers import NativeServiceAnswers
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.policies.registry import make

DEGREE, RATE, MEASURED, BATCH = 10, 200, 20, 100
QUERY = """PREFIX : <urn:> REGISTER {operator} :out AS
SELECT ?post ?topic ?user ?n FROM NAMED WINDOW :posts ON :stream [RANGE PT{seconds}S STEP PT1S]
{{ WINDOW :posts {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""


def background(keys: int) -> Iterator[ox.Quad]:
    """Who discusses what, and how many follow each."""
    users = 2 * keys // 5
    by, followers = ox.NamedNode("urn:discussedBy"), ox.NamedNode("urn:followers")
    for n in range(keys):
        for m in range(DEGREE):
            yield ox.Quad(ox.NamedNode(f"urn:t{n}"), by, ox.NamedNode(f"urn:u{(n * 7 + m * 13) % users}"))
    for n in range(users):
        yield ox.Quad(ox.NamedNode(f"urn:u{n}"), followers, ox.Literal(n))


def posts(keys: int) -> Iterator[tuple[int, ox.Triple]]:
    """Each of the next key."""
    seconds, topic = keys // RATE + MEASURED + 1, ox.NamedNode("urn:topic")
    for n in range(seconds * RATE):
        yield n * 1000 // RATE, ox.Triple(ox.NamedNode(f"urn:p{n}"), topic, ox.NamedNode(f"urn:t{n % keys}"))


def clocked(owner: Any, name: str, spent: list[float]) -> None:
    """Add what a method takes to what was spent."""
    inner: Callable[..., Any] = getattr(owner, name)

    def timed(*given: Any) -> Any:
        began = time.process_time()
        try:
            return inner(*given)
        finally:
            spent[0] += time.process_time() - began

    setattr(owner, name, timed)


def query_of(keys: int, operator: str) -> ContinuousQuery:
    """Its view takes in the keys of a second at once, and fetches as many entries as the smallest window has."""
    source = replace(Source.embedded(background(keys), ["urn:followers"]), price=Price(batch=BATCH))
    settings = MaintenanceSettings(lambda _: make("lru"), BudgetRule.of(4))
    text = QUERY.format(operator=operator, seconds=keys // RATE)
    return build(parse(text), sources={"urn:blog": source}, settings=settings)


def measured(keys: int, operator: str) -> tuple[float, float, float]:
    """Of a full window: milliseconds that an evaluation costs but for its decision, those of the decision; answers."""
    query = query_of(keys, operator)
    answering = query.answering
    assert isinstance(answering, NativeServiceAnswers)
    view = answering.services[0].service.view
    own, decided = [0.0], [0.0]
    for owner, names, spent in (
        (query, ("prepare", "answers"), own),
        (view, ("look", "decide"), own),
        (view.manager, ("conclude",), own),
        (view.manager, ("look_slots", "bid", "choose", "reserve"), decided),
    ):
        for name in names:
            clocked(owner, name, spent)
    found = []
    for result in run(query, {"urn:stream": posts(keys)}):
        found.append((own[0] - decided[0], decided[0], len(result.answers)))
        own[0] = decided[0] = 0.0
    own_s, decided_s, answers = (statistics.median(column) for column in zip(*found[-MEASURED:], strict=True))
    return own_s * 1e3, decided_s * 1e3, answers


def main() -> None:
    """Measure and print."""
    sizes = [1_000, 5_000, 20_000, *([100_000] if "--long" in sys.argv else [])]
    measured(1_000, "ISTREAM")  # what is compiled is compiled then
    rows, own = [], {}
    for operator, some in (("ISTREAM", sizes), ("DSTREAM", sizes[:2]), ("RSTREAM", sizes[:2])):
        for keys in some:
            spent, deciding, answers = measured(keys, operator)
            own[operator, keys] = spent
            told = [f"{keys:,}", f"{keys * DEGREE:,}", f"{answers:,.0f}"]
            rows.append([operator, *told, f"{spent:.2f} ms", f"{deciding:.2f} ms"])
    show(
        "200 posts come, 200 go, 400 entries are fetched again: CPU time of one evaluation beside its requests",
        ["", "keys in the window", "edges", "answers", "the evaluation", "its decision"],
        rows,
    )
    grown = {
        f"{operator.lower()}_cost_at_{keys:,}_keys_over_{sizes[0]:,}": own[operator, keys] / own[operator, sizes[0]]
        for operator, keys in own
        if keys != sizes[0]
    }
    ratios(grown)


if __name__ == "__main__":
    main()
