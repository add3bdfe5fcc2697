"""Queries that have the same window since the same moment hold it once, and answer as if each had its own."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from pyoxigraph import NamedNode, Triple
from serving import POSTS, E, configured

from freshkeeper import Source, continuous_query, run
from freshkeeper.maintenance.engine.columns.window_slots import ColumnWindowStore
from freshkeeper.maintenance.serve.security import Guard
from freshkeeper.maintenance.serve.server import opened
from freshkeeper.maintenance.serve.service import QueryService

HEAD = f"PREFIX : <{E}> REGISTER %s :out AS SELECT %s FROM NAMED WINDOW :w ON :posts [RANGE PT%dS STEP PT1S] "
JOINED = HEAD + "{ WINDOW :w { ?post :topic ?topic ; :by ?user } }"
COUNTED = HEAD + "{ WINDOW :w { ?post :topic ?topic } } GROUP BY ?topic"
ASKED = HEAD + "{ WINDOW :w { ?post :topic ?topic } SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n } }"
TWICE = HEAD.replace(":w ON", ":v ON :posts [RANGE PT2S STEP PT1S] FROM NAMED WINDOW :w ON") + (
    "{ WINDOW :v { ?post :topic ?topic } WINDOW :w { ?post :by ?user } }"
)
TEXTS = {
    "joined": JOINED % ("RSTREAM", "?post ?user", 2),
    "came": JOINED % ("ISTREAM", "?post ?user", 2),
    "went": JOINED % ("DSTREAM", "?post ?user", 2),
    "counted": COUNTED % ("RSTREAM", "?topic (COUNT(?post) AS ?n)", 2),
    "longer": COUNTED % ("RSTREAM", "?topic (COUNT(?post) AS ?n)", 3),
    "asked": ASKED % ("RSTREAM", "?post ?user", 2),
    "twice": TWICE % ("RSTREAM", "?post ?user", 2),
}


def elements(seed: int, first: int, last: int) -> list[tuple[int, str, str, str]]:
    """Posts, some of which come again."""
    rng = random.Random(seed)
    times = sorted(rng.randrange(first, last) for _ in range(60))
    kinds = [("topic", ("jazz", "rock")), ("by", ("ann", "bob"))]
    found = []
    for at in times:
        kind, values = rng.choice(kinds)
        found.append((at, f"p{rng.randrange(12)}", kind, rng.choice(values)))
    return found


def written(some: list[tuple[int, str, str, str]]) -> bytes:
    return "".join(f"{at}\t<{E}{s}> <{E}{p}> <{E}{o}> .\n" for at, s, p, o in some).encode()


def answers_of(place: Path, name: str) -> dict[int, Counter[str]]:
    """By instant, without how fresh they are."""
    lines = [json.loads(line) for line in (place / "state" / "answers" / f"{name}.ndjson").read_text().splitlines()]
    return {
        line["t"]: Counter(json.dumps(one["bindings"], sort_keys=True) for one in line["answers"]) for line in lines
    }


def expected(text: str, some: list[tuple[int, str, str, str]], place: Path) -> dict[int, int]:
    """How many answers a run of this query alone has."""
    blog = Source.embedded((place / "blog.ttl").read_text(), volatile=[f"{E}followers"])
    query = continuous_query(text, {f"{E}blog": blog}, budget=10)
    posts = [(at, Triple(NamedNode(E + s), NamedNode(E + p), NamedNode(E + o))) for at, s, p, o in some]
    return {result.t: len(result.answers) for result in run(query, {POSTS: posts})}


def slots(service: QueryService, name: str) -> list[ColumnWindowStore]:
    return [one.store for one in service.queries.running[name].contents if isinstance(one.store, ColumnWindowStore)]


@pytest.mark.parametrize("seed", range(4))
def test_shared_windows_answer_as_windows_of_ones_own(tmp_path: Path, seed: int) -> None:
    config = configured(tmp_path, budget=10)
    service = opened(config, Guard(None, None)).service
    for name, text in TEXTS.items():
        service.register(name, text)
    assert len({id(one) for name in TEXTS for one in slots(service, name)}) == 3, "2 s, 2 s again, and 3 s"
    all_of_it = elements(seed, 500, 9_500)
    for some in (all_of_it[:25], all_of_it[25:26]):
        service.push(POSTS, written(some))
    service.settled()
    service.register("later", TEXTS["joined"])
    assert slots(service, "later")[0] not in slots(service, "joined")
    service.push(POSTS, written(all_of_it[26:40]))
    service.delete("joined")
    service.push(POSTS, written(all_of_it[40:]))
    service.settled()
    service.close()
    known = {name: expected(TEXTS[name], all_of_it, tmp_path) for name in TEXTS if name != "joined"}
    for name, counts in known.items():
        found = answers_of(tmp_path, name)
        assert {t: sum(each.values()) for t, each in found.items()} == {t: counts[t] for t in found}
        assert found.keys() == {t for t in counts if t < all_of_it[-1][0]}
    again = opened(config, Guard(None, None)).service
    again.push(POSTS, written([(20_500, "p1", "topic", "jazz")]))
    again.settled()
    again.close()
    for name, counts in known.items():
        found = answers_of(tmp_path, name)
        assert {t: sum(each.values()) for t, each in found.items() if t in counts} == counts
    last = answers_of(tmp_path, "later")
    assert last[19_000] == Counter()
