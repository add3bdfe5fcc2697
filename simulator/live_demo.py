"""The live demo: a service over the stream and the source of the demo, in real time.

The two minutes of the contest come again and again: posts are pushed when they are due, and followers change then.
It begins two minutes ago, so that there is something to see at once, and is over after an hour.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event, Thread

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.serve.serve_config import ServeConfig, read_config
from freshkeeper.maintenance.serve.server import bound_to, serve
from freshkeeper.simulator.demo import BASE, BLOG, POSTS, SECONDS

LAP = 1_000 * SECONDS
LAPS = 32
"""Laps of the stream: the past, an hour, and a reserve."""
PORT = 8642
EVERY = 0.25
"""Seconds between two requests."""
PUSH_TIMEOUT_S = 10
FRONT = f"PREFIX : <{BASE}>\nREGISTER RSTREAM <{{name}}> AS\n"
JOINED = """SELECT ?post ?topic ?user ?followers
FROM NAMED WINDOW :recent ON :posts [RANGE {range} STEP PT1S]
WHERE {{
  WINDOW :recent {{ ?post :about ?topic }}
  SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?followers }}
}}
"""
COUNTED = """SELECT ?topic (COUNT(*) AS ?posts)
FROM NAMED WINDOW :recent ON :posts [RANGE PT10S STEP PT1S]
WHERE { WINDOW :recent { ?post :about ?topic } }
GROUP BY ?topic
"""
QUERIES = {
    "reach": JOINED.format(range="PT4S"),
    "reach-of-20-seconds": JOINED.format(range="PT20S"),
    "posts-per-topic": COUNTED,
}
CONFIG = f"""# What `freshkeeper demo --serve` runs; its followers change for an hour from when it was written.
streams: [{POSTS}]
sources:
  {BLOG}: {{data: ../blog.nt, changes: followers.nt, volatile: {BASE}followers}}
queries: queries
budget: 10
bank: 20
target: 0.9
audit: 0.15
"""


@dataclass(frozen=True)
class LiveScene:
    """The files of a demonstration, gone through again and again from an instant on."""

    demonstration: Path
    begin: int

    @property
    def place(self) -> Path:
        """The directory of the live demo."""
        return self.demonstration / "live"

    def write(self) -> Path:
        """Write the config of the service, its queries and all changes; remove what an earlier demo left."""
        for old in sorted(self.place.rglob("*"), reverse=True):
            old.rmdir() if old.is_dir() else old.unlink()
        (self.place / "queries").mkdir(parents=True, exist_ok=True)
        for name, text in QUERIES.items():
            (self.place / "queries" / f"{name}.rspql").write_text(FRONT.format(name=name) + text, encoding="utf-8")
        (self.place / "followers.nt").write_text("".join(self._changes()), encoding="utf-8")
        config = self.place / "serve.yaml"
        config.write_text(CONFIG, encoding="utf-8")
        return config

    def posts(self) -> Iterator[tuple[int, str]]:
        """Yield the time at which each post is due, and its line, endlessly."""
        lines = self._lap("posts.nt")
        for lap in count():
            for at, statement in lines:
                yield (due := self.begin + lap * LAP + at), f"{due}\t{statement}"

    def _changes(self) -> Iterator[str]:
        followers: dict[str, int] = {}
        lines = self._lap("followers.nt")
        for lap in range(LAPS):
            for at, statement in lines:
                user = statement.partition(" ")[0]
                followers[user] = followers.get(user, 1000) + 1
                before, _, after = statement.partition('"')
                yield f'{self.begin + lap * LAP + at}\t{before}"{followers[user]}"{after.partition(chr(34))[2]}'

    def _lap(self, name: str) -> Sequence[tuple[int, str]]:
        """Return the lines of a file within the contest's two minutes, with times from its beginning."""
        lines = (self.demonstration / name).read_text("utf-8").splitlines(keepends=True)
        begin = int((self.demonstration / "posts.nt").read_text("utf-8").partition("\t")[0])
        lap = []
        for line in lines:
            at, _, statement = line.partition("\t")
            if 0 <= int(at) - begin < LAP:
                lap.append((int(at) - begin, statement))
        return lap


def show_live(demonstration: Path, seconds: float, tell: Callable[[str], None]) -> None:
    """Serve the demo until it is stopped, or for `seconds` seconds."""
    scene = LiveScene(demonstration, int(time.time() * 1000) - LAP)
    config = read_config(scene.write(), {"listen": str(_port())})
    over = Event()
    feeder = Thread(target=_feed, args=(scene, config, seconds, over), name="feeder", daemon=True)
    feeder.start()
    try:
        serve(config, tell)
    finally:
        over.set()
        feeder.join()


def _feed(scene: LiveScene, config: ServeConfig, seconds: float, over: Event) -> None:
    """Push lines when they are due, and stop the service at the end."""
    address = f"http://127.0.0.1:{config.listen}/streams/{POSTS}"
    pool = ConnectionPool(proxies={})
    posts, until = scene.posts(), time.monotonic() + seconds
    ahead = next(posts)
    while not over.is_set() and time.monotonic() < until:
        due, now = [], time.time() * 1000
        while ahead[0] <= now:
            due.append(ahead[1])
            ahead = next(posts)
        while due and not over.is_set() and not _pushed(pool, address, "".join(due)):
            over.wait(EVERY)
        over.wait(EVERY)
    pool.close()
    if not over.is_set():
        signal.raise_signal(signal.SIGINT)


def _pushed(pool: ConnectionPool, address: str, lines: str) -> bool:
    """Push lines; return False if the service does not take them yet."""
    call = Call("POST", address, {"Content-Type": "application/n-quads"}, lines.encode())
    try:
        response = pool.exchange(call, Deadline(time.monotonic() + PUSH_TIMEOUT_S))
    except FetchError:
        return False
    return response.status < 400


def _port() -> int:
    """Return the usual port, or any free one if that is taken."""
    for port in (PORT, 0):
        try:
            with bound_to("127.0.0.1", port) as bound:
                return int(bound.getsockname()[1])
        except ConfigError:
            continue
    return 0
