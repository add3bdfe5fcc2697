"""Many queries in one run: registering them, and evaluating them, each with a view of its own or all with one.

python benchmarks/many_queries.py     about a minute
"""

import random
import tempfile
import time
from pathlib import Path

from stopwatch import ratios, show

from freshkeeper.maintenance.runtime.query_set import read_queries
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session

E = "http://e/"
TOPICS, USERS, INSTANTS, BUDGET = 100, 200, 5, 50
QUERY = f"""PREFIX : <{E}> SELECT ?topic ?n FROM NAMED WINDOW :w ON :s [RANGE PT3S STEP PT1S]
{{ WINDOW :w {{ ?post :topic ?topic . ?post :topic :t%d }}
  SERVICE :blog {{ ?topic :discussedBy ?u . ?u :followers ?n %s }} }}"""


def write(place: Path) -> None:
    """A stream of fifty posts a second, and a blog."""
    rng = random.Random(1)
    times = range(100, 1000 * (INSTANTS + 1), 20)
    (place / "s.nq").write_text("".join(f"{t}\t<{E}p{t}> <{E}topic> <{E}t{rng.randrange(TOPICS)}> .\n" for t in times))
    edges = [f"<{E}t{t}> <{E}discussedBy> <{E}u{u}> ." for t in range(TOPICS) for u in rng.sample(range(USERS), 3)]
    (place / "blog.ttl").write_text("\n".join([*edges, *(f"<{E}u{u}> <{E}followers> {u} ." for u in range(USERS))]))


def run(place: Path, count: int, shared: bool) -> tuple[float, float]:
    """Milliseconds per query to register, and per query and instant to evaluate."""
    parts = ["" if shared else f"FILTER(?n != {USERS + n})" for n in range(count)]
    config = config_of(
        {
            "queries": {f"q{n}": QUERY % (n % TOPICS, part) for n, part in enumerate(parts)},
            "streams": {f"{E}s": str(place / "s.nq")},
            "sources": {f"{E}blog": {"data": str(place / "blog.ttl"), "volatile": [f"{E}followers"]}},
            "shared": True,
            "budget": BUDGET,
        }
    )
    began = time.process_time()
    session = Session(config, read_queries(config, lambda name, error: print(name, error)))
    registered = time.process_time()
    results = sum(1 for _ in session.results())
    done = time.process_time()
    return 1000 * (registered - began) / count, 1000 * (done - registered) / results


def main() -> None:
    """A quarter first, so that what grows faster than the number of queries is seen."""
    rows, named = [], {}
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        write(place)
        run(place, 20, shared=False)
        first = run(place, 250, shared=False)
        for count, shared in ((250, False), (1000, False), (1000, True)):
            register, evaluate = first if count == 250 else run(place, count, shared)
            views = "1 view" if shared else f"{count:,} views"
            rows.append([f"{count:,} queries, {views}", f"{register:.2f}", f"{evaluate:.2f}"])
            named[f"register {count} {views}"] = register / first[0]
            named[f"evaluate {count} {views}"] = evaluate / first[1]
    show("Milliseconds per query", ["", "to register", "to evaluate once"], rows)
    ratios(named)


if __name__ == "__main__":
    main()
