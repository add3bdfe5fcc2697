"""The demonstration: one continuous query, run side by side with several policies under one budget.

Its files are a stream of posts, a source whose values change unannounced, and a query over both: topics are posted
about, each topic is discussed by users, and the users' numbers of followers change. Everything is written as a person
would have it, so that it can be read, changed, and run by hand.

Every policy keeps a view of its own over the same source and may send the same number of requests per evaluation; none
of them knows when anything changes, they learn it from what their refreshes reveal. The truth is known here, and only
used to measure.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.journal.run_json import About
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.query_journal import QueryJournal
from freshkeeper.maintenance.sources.sources import load_source
from freshkeeper.maintenance.streams.timed_lines import TimedLines
from freshkeeper.policies.registry import make
from freshkeeper.simulator.trace.trace import Trace
from freshkeeper.simulator.trace.workload import Workload, generate
from freshkeeper.simulator.world.truth import schedule_of

BASE = "http://example.org/"
BLOG, POSTS = f"{BASE}blog", f"{BASE}posts"
SECONDS = 120
WORKLOAD = Workload(
    sns=40, srs=60, edges=240, degree_skew=0.7, change_law="poisson", change_interval_ms=(2_000, 90_000),
    change_degree_correlation=-0.3, duration_ms=1_000 * SECONDS,
)  # fmt: skip

QUERY = f"""PREFIX : <{BASE}>
REGISTER RSTREAM <reach> AS
SELECT ?post ?topic ?user ?followers
FROM NAMED WINDOW :recent ON :posts [RANGE PT4S STEP PT1S]
WHERE {{
  WINDOW :recent {{ ?post :about ?topic }}
  SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?followers }}
}}
"""
SOURCE = f"""# A source in this process. Its followers change as followers.nt says; nobody is told.
data: blog.nt
changes: followers.nt
volatile: {BASE}followers
"""
CONFIG = f"""# What `freshkeeper demo` writes beside its data; with one policy: freshkeeper run runs/demo/demo.yaml
query: reach.rspql
streams:
  {POSTS}: posts.nt
sources:
  {BLOG}: blog.yaml
policy: plan
budget: 3
bank: 12
journal: journal
"""


def write_scene(place: Path, seed: int, budget: float = 3) -> Trace:
    """Draw the posts and the changes, and write all files."""
    trace = generate(WORKLOAD, seed)
    place.mkdir(parents=True, exist_ok=True)
    files = {
        "reach.rspql": QUERY,
        "blog.yaml": SOURCE,
        "demo.yaml": _config(budget),
        "posts.nt": "".join(
            f"{at}\t<{BASE}post/{n}> <{BASE}about> <{BASE}topic/{topic}> .\n"
            for n, (at, topic) in enumerate(zip(trace.arrivals.t_ms.tolist(), trace.arrivals.sn.tolist(), strict=True))
        ),
        "blog.nt": "".join(_blog(trace)),
        "followers.nt": "".join(_changes(trace)),
    }
    for name, text in files.items():
        (place / name).write_text(text, encoding="utf-8")
    return trace


def _config(budget: float) -> str:
    """Return the text of the config, with this budget and a bank of as many steps."""
    return CONFIG.replace("budget: 3\nbank: 12\n", f"budget: {budget:g}\nbank: {STEPS_BANKED * budget:g}\n")


def _blog(trace: Trace) -> Iterator[str]:
    for topic, user in zip(trace.edges.sn.tolist(), trace.edges.sr.tolist(), strict=True):
        yield f"<{BASE}topic/{topic}> <{BASE}discussedBy> <{BASE}user/{user}> .\n"
    for user in range(trace.srs):
        yield _followers(user, 1000)


def _changes(trace: Trace) -> Iterator[str]:
    """Yield a line for every change: one more follower of a user."""
    followers = dict.fromkeys(range(trace.srs), 1000)
    times, users = schedule_of(trace).changes(-(2**62), trace.t0 + 1_000 * (SECONDS + 1))
    for at, user in zip(times.tolist(), users.tolist(), strict=True):
        followers[user] += 1
        yield f"{at}\t{_followers(user, followers[user])}"


def _followers(user: int, count: int) -> str:
    return f'<{BASE}user/{user}> <{BASE}followers> "{count}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'


POLICIES = ("lru", "ibm", "plan")
STEPS_BANKED = 4
EVERY = 5
"""Evaluations between two updates of the standings."""


@dataclass(eq=False)
class Standing:
    """The results of one policy so far."""

    policy: str
    evaluations: int = 0
    answers: float = 0.0
    fresh: float = 0.0
    believed: float = 0.0
    spent: float = 0.0
    decide_us: list[float] = field(default_factory=list)

    @property
    def freshness(self) -> float:
        """The share of answers that were fresh."""
        return self.fresh / self.answers if self.answers else 1.0

    def as_json(self) -> dict[str, object]:
        """Return results per answer and per evaluation; decision time is a median, as the first one is slow."""
        return {
            "policy": self.policy,
            "freshness": self.freshness,
            "believed": self.believed / self.answers if self.answers else 1.0,
            "requests": self.spent / max(1, self.evaluations),
            "decide_us": median(self.decide_us or [0.0]),
        }


@dataclass(eq=False)
class Contest:
    """A contest of several policies over one scene, with one journal."""

    place: Path
    policies: Sequence[str] = POLICIES
    budget: float = 3
    seed: int = 0
    command: str = ""
    standings: dict[str, Standing] = field(init=False)

    def __post_init__(self) -> None:
        """Write the scene, and wire every policy to a source of its own that changes alike."""
        self._changes = schedule_of(write_scene(self.place, self.seed, self.budget))
        source = str(self.place / "blog.yaml")
        self.standings = {name: Standing(name) for name in self.policies}
        about = About.of_queries(self.seed, self.command, {"query": QUERY, "budget": self.budget})
        self._journal = QueryJournal(self.seed, self.place, about=about)
        self._engine = Engine([self._query(name, source) for name in self.policies])
        self._engine.listen(POSTS, TimedLines.file(self.place / "posts.nt"))

    def run(self) -> Iterator[list[Standing]]:
        """Yield the standings while the contest runs; at the end everything is on disk."""
        told = 0
        for _ in self._engine.run():
            done = min(standing.evaluations for standing in self.standings.values())
            if done >= told + EVERY:
                told = done
                yield list(self.standings.values())
        self._journal.close()

    def _query(self, name: str, source: str) -> ContinuousQuery:
        settings = MaintenanceSettings(
            lambda _: make(name),
            BudgetRule.of(self.budget, STEPS_BANKED * self.budget),
            seed=self.seed,
            observe=partial(self._observe, self.standings[name]),
        )
        return build(parse(QUERY), name=name, sources={BLOG: load_source(source)}, settings=settings)

    def _observe(self, standing: Standing, _: str, manager: Manager, evaluation: Evaluation) -> None:
        record = evaluation.record
        changed = self._changes.last_change(record.t_ms)
        fresh = sum(a.weight for a in manager.answers_of(evaluation) if changed[_number(a.entry)] <= a.refreshed)
        standing.evaluations += 1
        standing.answers += record.results
        standing.fresh += fresh
        standing.believed += record.expected_fresh
        standing.spent += record.spent
        standing.decide_us.append(record.decide_us)
        self._journal.observe(BLOG, manager, evaluation, fresh=fresh)
        manager.ledger.check()


def _number(entry: Hashable) -> int:
    """Return the number of the user that a cached entry belongs to."""
    assert isinstance(entry, tuple)
    return int(entry[0].value.rpartition("/")[2])
