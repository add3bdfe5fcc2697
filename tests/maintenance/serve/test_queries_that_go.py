"""Queries that are registered and deleted again and again leave nothing behind in memory."""

import gc
from collections import Counter
from pathlib import Path

from serving import REACH, TOPICS, Client, configured, posts, served

from freshkeeper.maintenance.engine.columns.window_slots import TripleSlots
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.native.expressions import ExpressionEvaluator
from freshkeeper.maintenance.engine.service_join.service_view import ServiceView
from freshkeeper.maintenance.engine.windows import WindowState

MOVING = TOPICS.replace("RANGE PT2S STEP PT1S", "ELEMENTS 3")
FILTERED = TOPICS.replace("?topic }", "?topic FILTER(?topic != :rock) }")
AVERAGE = TOPICS.replace("{ WINDOW", "{ { SELECT * { BIND(1 AS ?one) } } WINDOW")
"""Which the other evaluator runs."""


def held() -> Counter[str]:
    """What there is of queries in this process."""
    gc.collect()
    kinds = (TripleSlots, ContinuousQuery, WindowState, ServiceView, ExpressionEvaluator)
    found = (type(one) for one in gc.get_objects())  # not its __class__, for which a dead proxy raises
    return Counter(kind.__name__ for kind in found if issubclass(kind, kinds))


def come_and_go(client: Client, second: int) -> None:
    """Some queries for a second."""
    for name, text in {"r": REACH, "t": TOPICS, "m": MOVING, "f": FILTERED, "a": AVERAGE}.items():
        assert client.register(name, text).status_code == 201
    assert client.push(posts(second * 1000, second * 1000 + 600)).status_code == 202
    for name in "rtmf":
        assert client.post(f"/queries/{name}/pause").status_code == 204
        assert client.post(f"/queries/{name}/resume").status_code == 204
    for name in "rtmfa":
        assert client.delete(f"/queries/{name}").status_code == 204


def test_deleted_and_paused_queries_are_gone_from_memory(tmp_path: Path) -> None:
    with served(configured(tmp_path)) as client:
        come_and_go(client, 1)
        before = held()
        for second in range(2, 6):
            come_and_go(client, second)
        assert held() <= before  # fewer when what an earlier test left has gone meanwhile
