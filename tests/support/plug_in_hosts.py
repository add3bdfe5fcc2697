"""The stateful plug-in of the docs on one host that kills itself: `python plug_in_hosts.py HOST PLACE AFTER`.

AFTER is the number of evaluations, or runs of a simulation, after which it does so; 0 is never. Started again, it goes
on with what is in PLACE.
"""

import os
import pickle
import signal
import sys
from pathlib import Path

from freshkeeper.maintenance.cache.manager import Manager

POLICY = "bandit_policy:Bandit(bonus=2)"


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def manager(place: Path, after: int) -> None:
    """A program with a Manager that keeps it on the disk; its choices are lines of a file."""
    from enriched import WINDOW, Counted, events, warm

    from freshkeeper.maintenance.cache.view.learned import Learned

    kept = place / "manager"
    if kept.exists():
        k, made = pickle.loads(kept.read_bytes())
    else:
        k, made = 0, Manager(WINDOW, Counted(place / "requests"), POLICY, 3, Learned(), seed=5)
        warm().fill(made.view, ["topic"])
    while k < 30:
        k += 1
        due = [event for event in events() if k * 1000 - 1000 < event[0] <= k * 1000]
        chosen = made.evaluate(k * 1000, due).refreshes.keys
        with (place / "choices").open("a") as file:
            file.write(f"{k} {' '.join(map(str, chosen))}\n")
        kept.with_suffix(".new").write_bytes(pickle.dumps((k, made)))
        kept.with_suffix(".new").rename(kept)
        if k == after:
            kill_self()


def run(place: Path, after: int) -> None:
    """A run with a state and a journal."""
    from run_files import RunFiles

    files = place / "files"
    files.mkdir(exist_ok=True)
    session = RunFiles(files).session(policy=POLICY, state=place / "state", journal=place / "journal")
    for number, _ in enumerate(session.results(), 1):
        if number == after:
            kill_self()


def micro_batches(place: Path, after: int) -> None:
    """Spark's enrich, without Spark: micro-batches handed over by hand."""
    from enriched import batches, counts_of, kill_at, parts

    query = batches(place, kill_at("committed", after), POLICY)
    done, _ = query.committed()
    for number, part in enumerate(parts()):
        if number > done:
            query.process(number, counts_of(part))


def spark(place: Path, after: int) -> None:
    """Spark's enrich, on Spark."""
    from enriched import SETTINGS, drop, finish, kill_at, query

    from freshkeeper.maintenance.analysis.spark_session import spark_session

    if not (place / "events").exists():
        drop(place)
    session = spark_session("local[2]", SETTINGS)
    finish(query(session, place, reached=kill_at("committed", after), policy=POLICY))
    session.stop()


if __name__ == "__main__":
    hosts = {"manager": manager, "run": run, "spark": spark, "batches": micro_batches}
    hosts[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
