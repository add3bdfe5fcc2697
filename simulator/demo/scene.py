"""The files of the demonstration: a stream of posts, a source whose values change unannounced, and a query over both.

Topics are posted about, each topic is discussed by users, and the users' numbers of followers change. Everything is
written as a person would have it, so that it can be read, changed, and run by hand.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Scene:
    """Where the files are."""

    place: Path

    @property
    def posts(self) -> Path:
        """The stream."""
        return self.place / "posts.nt"

    @property
    def blog(self) -> Path:
        """The source."""
        return self.place / "blog.yaml"

    @classmethod
    def write(cls, place: Path, seed: int) -> "Scene":
        """Draw the posts and the changes, and write all files."""
        trace = generate(WORKLOAD, seed)
        place.mkdir(parents=True, exist_ok=True)
        files = {
            "reach.rspql": QUERY,
            "blog.yaml": SOURCE,
            "demo.yaml": CONFIG,
            "posts.nt": "".join(_posts(trace)),
            "blog.nt": "".join(_blog(trace)),
            "followers.nt": "".join(_changes(trace)),
        }
        for name, text in files.items():
            (place / name).write_text(text, encoding="utf-8")
        return cls(place)


def _posts(trace: Trace) -> Iterator[str]:
    for n, (at, topic) in enumerate(zip(trace.arrivals.t_ms.tolist(), trace.arrivals.sn.tolist(), strict=True)):
        yield f"{at}\t<{BASE}post/{n}> <{BASE}about> <{BASE}topic/{topic}> .\n"


def _blog(trace: Trace) -> Iterator[str]:
    for topic, user in zip(trace.edges.sn.tolist(), trace.edges.sr.tolist(), strict=True):
        yield f"<{BASE}topic/{topic}> <{BASE}discussedBy> <{BASE}user/{user}> .\n"
    for user in range(trace.srs):
        yield _followers(user, 1000)


def _changes(trace: Trace) -> Iterator[str]:
    """One follower more at every change."""
    followers = dict.fromkeys(range(trace.srs), 1000)
    times, users = schedule_of(trace).changes(-(2**62), trace.t0 + 1_000 * (SECONDS + 1))
    for at, user in zip(times.tolist(), users.tolist(), strict=True):
        followers[user] += 1
        yield f"{at}\t{_followers(user, followers[user])}"


def _followers(user: int, count: int) -> str:
    return f'<{BASE}user/{user}> <{BASE}followers> "{count}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
