"""What the manager is told of a query's windows: how long they hold things, and when evaluations come."""

from collections.abc import Callable
from typing import Any

import pytest

from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.engine.service_join.shared_views import grid_of, spec_of
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.policies.base import Budget, Round, Selection
from freshkeeper.policies.registry import make

SERVICE = "SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n }"


@pytest.mark.parametrize(
    ("windows", "spec"),
    [
        ("[RANGE PT4S STEP PT1S]", WindowSpec(4000, 1000)),
        ("[RANGE PT4S STEP PT1S STARTING AT 1500]", WindowSpec(4000, 1000, 1500)),
        ("[RANGE PT64S]", WindowSpec(64_000, 1000, grid=False)),
        ("[ELEMENTS 5]", WindowSpec(60_000, 938, grid=False)),
        ("[NOW]", WindowSpec(1, 1, grid=False)),
        ("[RANGE PT6S STEP PT3S] FROM WINDOW ON <r> [RANGE PT4S STEP PT2S]", WindowSpec(6000, 1000)),
        ("[RANGE PT6S STEP PT1S] FROM WINDOW ON <r> [RANGE PT4S STEP 1001ms]", WindowSpec(6000, 94, grid=False)),
    ],
)
def test_evaluations_are_on_a_grid_or_planned_for_in_64_parts_of_the_longest_window(
    windows: str, spec: WindowSpec
) -> None:
    running = build(parse(f"ASK FROM WINDOW ON <s> {windows} {{ ?a ?b ?c }}"))
    assert spec_of(running.contents, grid_of(running.query, running.contents, 0)) == spec


class Watched:
    """A policy that remembers what it was shown."""

    def __init__(self) -> None:
        """It chooses as ibm does."""
        self.inner = make("ibm")
        self.rounds: list[Round] = []

    def __getattr__(self, name: str) -> object:
        """All else is ibm's."""
        return getattr(self.inner, name)

    def select(self, round: Round, budget: Budget, rng: Any) -> Selection:
        """Remember, and choose."""
        self.rounds.append(round)
        return self.inner.select(round, budget, rng)


def test_a_policy_sees_the_whole_window_ahead_where_no_step_says_how_far(world: Callable[..., Any]) -> None:
    watched = Watched()
    text = (
        f"SELECT ?n FROM NAMED WINDOW :w ON :s [RANGE PT64S] WHERE {{ WINDOW :w {{ ?post :topic ?topic }} {SERVICE} }}"
    )
    posts = [(1000, ":p1 :topic :jazz"), (33_500, ":p2 :topic :jazz"), (33_600, ":p3 :topic :jazz")]
    found = world(text, posts=posts, policy=lambda: watched)
    assert len(found.results) == 3
    demand = watched.rounds[2].demand.max(axis=0).tolist()
    assert demand == [3.0] * 32 + [2.0] * 32
