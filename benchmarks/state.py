"""What --state costs: evaluations per second without, with it, and with every commit waiting for the disk; start-up.

python benchmarks/state.py            about 15 s
"""

import random
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from stopwatch import ratios, seconds, show

from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session
from freshkeeper.maintenance.state import database

E = "http://e/"
QUERY = f"""PREFIX : <{E}> SELECT ?topic ?user ?n FROM NAMED WINDOW :w ON :s [RANGE PT10S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""
EVALUATIONS, BUDGET = 150, 10
WAITS = "PRAGMA synchronous=FULL"


def write(place: Path, topics: int, users: int, degree: int) -> None:
    """A stream of five posts per second, and a blog of some size."""
    rng = random.Random(1)
    times = sorted(rng.randrange(1, EVALUATIONS * 1000) for _ in range(5 * EVALUATIONS))
    posts = [f"{at}\t<{E}p{n}> <{E}topic> <{E}t{rng.randrange(topics)}> ." for n, at in enumerate(times)]
    (place / "posts.nq").write_text("\n".join(posts) + "\n")
    edges = [f"<{E}t{t}> <{E}discussedBy> <{E}u{u}> ." for t in range(topics) for u in rng.sample(range(users), degree)]
    values = [f"<{E}u{u}> <{E}followers> {u} ." for u in range(users)]
    (place / "blog.ttl").write_text("\n".join([*edges, *values]))


def run(place: Path, **more: Any) -> int:
    """One run to its end."""
    streams, sources = {f"{E}s": str(place / "posts.nq")}, {f"{E}blog": str(place / "blog.ttl")}
    volatile = {f"{E}blog": [f"{E}followers"]}
    inputs = {"streams": streams, "sources": sources, "volatile": volatile, "budget": BUDGET}
    session = Session(config_of({"query": QUERY, **inputs, **more}), parse(QUERY))
    return sum(1 for _ in session.results())


def main() -> None:
    """Two sizes of view."""
    rows: list[list[str]] = []
    named: dict[str, float] = {}
    plain = database.SETTINGS
    for name, (topics, users, degree) in {"50 SN × 50 SR": (50, 50, 5), "2000 SN × 5000 SR": (2000, 5000, 5)}.items():
        with tempfile.TemporaryDirectory() as directory:
            place, count = Path(directory), iter(range(1000))
            write(place, topics, users, degree)
            done = run(place)

            def keeping(place: Path = place, count: Iterator[int] = count) -> int:
                return run(place, state=place / f"{next(count)}")

            without = seconds(partial(run, place), repeats=3)
            kept = seconds(keeping, repeats=3)
            database.SETTINGS = (*plain, WAITS)
            waiting = seconds(keeping, repeats=1)
            database.SETTINGS = plain
            size = (place / "0" / "state.sqlite").stat().st_size / 1e6
            began = time.perf_counter()
            run(place, state=place / "0")
            again = time.perf_counter() - began
        cost = 1e3 * (kept - without) / done
        rows.append(
            [
                name,
                *(f"{done / taken:,.0f}" for taken in (without, kept, waiting)),
                f"{cost:.2f}",
                f"{size:.1f}",
                f"{again:.2f}",
            ]
        )
        named |= {f"{name}: kept over without": without / kept, f"{name}: waiting over without": without / waiting}
    columns = ["view", "evaluations/s", "with --state", "waiting for the disk", "ms each", "MB", "s to go on"]
    show("A state written at every evaluation", columns, rows)
    ratios(named)


if __name__ == "__main__":
    main()
