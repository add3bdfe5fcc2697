"""A log of reads: what the printed Enricher delivers, on its day and on one that it was not chosen on."""

import csv
import gzip
import os
import random
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshkeeper import Enricher
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.simulator.budget.log_answer import LogQuestion, answer_log
from freshkeeper.simulator.budget.plain_caches import CacheKind, PlainCaches
from freshkeeper.simulator.budget.read_log import ReadLog
from freshkeeper.simulator.trace.event_files import NamedFile

HOUR, DAY = 3_600_000.0, 86_400_000.0
BEGIN = 1_777_593_600_000.0
DATA = Path(os.environ.get("FRESHKEEPER_DATA", Path(__file__).parents[4] / "shared" / "data"))


def drawn(keys: int, reads: int, span: float, change_interval: float, by_day: bool = False) -> ReadLog:
    """Reads by Zipf's law of keys whose change rates differ by orders of magnitude; by day five times as many."""
    rng = random.Random(7)
    weights = [1 / (n + 1) for n in range(keys)]
    rng.shuffle(weights)
    names = [f"k{n}" for n in range(keys)]
    times: list[float] = []
    while len(times) < reads:
        at = rng.uniform(0, span)
        if not by_day or rng.random() < (1.0 if HOUR * 8 < at % DAY < HOUR * 20 else 0.2):
            times.append(BEGIN + at)
    changes: dict[str, Any] = {}
    for name in names:
        rate, at, found = rng.lognormvariate(0, 1.5) / change_interval, BEGIN, []
        while (at := at + rng.expovariate(rate)) < BEGIN + span:
            found.append(at)
        changes[name] = found
    return ReadLog(sorted(times), rng.choices(names, weights, k=reads), changes)


def recorded(name: str, directory: Path) -> ReadLog:
    """A recorded trace as a log: an arrival reads every entry of its key."""
    if not (DATA / name).is_dir():
        pytest.skip(f"{name} is not there; FRESHKEEPER_DATA names the directory that has it")
    trace = {table: DATA / name / f"{table}.csv.gz" for table in ("arrivals", "edges", "changes")}
    entries: dict[str, list[str]] = {}
    with gzip.open(trace["edges"], "rt") as file:
        for row in csv.DictReader(file):
            entries.setdefault(row["sn"], []).append(row["sr"])
    with gzip.open(trace["arrivals"], "rt") as file, (directory / "reads.csv").open("w") as reads:
        for row in csv.DictReader(file):
            reads.writelines(f"{row['t_ms']},{entry}\n" for entry in entries[row["sn"]])
    return ReadLog.read(NamedFile(directory / "reads.csv"), NamedFile(trace["changes"]))


LOGS: dict[str, Callable[[], tuple[ReadLog, float]]] = {
    "a shop": lambda: (drawn(800, 20_000, 2 * DAY, 6 * HOUR), DAY),
    "a shop with nights": lambda: (drawn(800, 20_000, 2 * DAY, 6 * HOUR, by_day=True), DAY),
    "ten minutes of traffic": lambda: (drawn(1000, 30_000, 20 * 60_000.0, 60_000.0), 10 * 60_000.0),
}


def share_of(line: str, log: ReadLog) -> float:
    """The share of right reads of the Enricher that a line makes, begun anew; background and clock are the test's."""
    now = [log.times[0]]

    def version(key: str) -> int:
        return bisect_right(log.changes.get(key, ()), now[0])

    made = line.removesuffix(")") + ", background=False, clock=lambda: now[0])"
    names = {"Enricher": Enricher, "lookup": lambda keys: {key: version(key) for key in keys}, "now": now}
    enricher = eval(made, names)  # the line as it was printed
    right = 0
    for now[0], key in zip(log.times, log.keys, strict=True):
        right += enricher.get(key).value == version(key)
    return right / len(log.times)


@pytest.mark.slow
@pytest.mark.parametrize("target", [0.85, 0.95])
@pytest.mark.parametrize("name", LOGS)
def test_the_line_reaches_its_target_on_a_day_that_was_not_used_to_choose_it(name: str, target: float) -> None:
    log, day = LOGS[name]()
    begin = log.times[0]
    sheet = answer_log(LogQuestion(log.between(begin, begin + day), target))
    assert sheet.data["rows"][0]["fresh"] >= target
    assert share_of(sheet.code, log.between(begin + day, begin + 2 * day)) == pytest.approx(target, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("target", [0.8, 0.95])
def test_a_line_chosen_on_a_real_day_reaches_its_target_on_the_next(target: float, tmp_path: Path) -> None:
    log = recorded("bike-week", tmp_path)
    begin = log.times[0]
    sheet = answer_log(LogQuestion(log.between(begin, begin + DAY), target))
    assert share_of(sheet.code, log.between(begin + DAY, begin + 2 * DAY)) >= target - 0.02


def test_a_ttl_cache_at_as_many_requests_is_behind_and_the_sentence_says_what_it_needs() -> None:
    log = drawn(300, 6000, DAY, 6 * HOUR)
    sheet = answer_log(LogQuestion(log, 0.9, price=0.001))
    ours, serves, ttl, ttl_stale, ahead, none = sheet.data["rows"]
    assert 0.9 <= ours["fresh"] < 0.915
    assert ours["fresh"] > ttl["fresh"] + 0.02
    assert ttl["requests"] == pytest.approx(ours["requests"], rel=0.05)
    assert ttl["requests_for_target"] > ours["requests"]
    assert serves["fresh"] > ttl_stale["fresh"]
    assert (none["fresh"], none["requests"]) == (1, pytest.approx(6000, rel=0.01))
    assert ahead["wait"] < ttl["wait"]
    cost = f"{ours['requests'] * 0.001:,.2f}"
    assert sheet.lead.startswith("An Enricher keeps 90 % of the reads fresh with ")
    assert f" requests a day for {cost}; a TTL cache needs " in sheet.lead
    assert [len(row.cells) + 1 for row in sheet.rows] == [len(sheet.heads)] * 6


def test_where_stale_rows_are_served_some_targets_cannot_be_kept_and_it_says_so() -> None:
    sheet = answer_log(LogQuestion(drawn(100, 1500, DAY, HOUR), 0.98, on_stale="serve"))
    assert sheet.lead.startswith('An Enricher(on_stale="serve") keeps at most ')
    assert "98 % cannot be kept, as stale rows are served while they are fetched." in sheet.lead
    assert sheet.code == ""


def plain(kind: CacheKind, ttl: float, log: ReadLog) -> tuple[int, int, int]:
    """Requests, right reads and reads that waited of a cache, one read or renewal after the other."""
    fetched: dict[str, float] = {}
    read_since: dict[str, bool] = {}
    requests = right = waited = 0
    for now, key in zip(log.times, log.keys, strict=True):
        if kind is CacheKind.REFRESH_AHEAD:
            while key in fetched and fetched[key] + ttl <= now:
                if read_since[key]:
                    fetched[key], read_since[key] = fetched[key] + ttl, False
                    requests += 1
                else:
                    del fetched[key]
        there, stale = key in fetched, key in fetched and now - fetched[key] >= ttl
        waits = not there or (stale and kind is CacheKind.TTL)
        was = fetched.get(key, now)
        if not there or stale:
            requests += 1
            fetched[key] = now
        read_since[key] = True
        waited += waits
        right += waits or log.version(key, was) == log.version(key, now)
    return requests, right, waited


@pytest.mark.parametrize("ttl", [1000.0, HOUR / 2, 3 * HOUR, 3 * DAY])
@pytest.mark.parametrize("kind", [CacheKind.TTL, CacheKind.TTL_STALE, CacheKind.REFRESH_AHEAD])
def test_plain_caches_are_what_a_loop_over_the_reads_does(kind: CacheKind, ttl: float) -> None:
    log = drawn(60, 1500, DAY, 2 * HOUR)
    run = PlainCaches(log).run(kind, ttl)
    requests, right, waited = plain(kind, ttl, log)
    # A renewal after a key's last read is not made in either case: nobody could tell.
    assert (run.right, run.waited) == (right, waited)
    assert run.requests == requests


def test_observations_are_changes_where_the_value_differs(tmp_path: Path) -> None:
    (tmp_path / "reads.csv").write_text("at,product\n10,a\n20,b\n")
    (tmp_path / "seen.csv").write_text("at,product,price\n1,a,5\n2,a,5\n3,a,6\n4,b,1\n5,a,5\n")
    files = NamedFile.of(str(tmp_path / "reads.csv")), str(tmp_path / "seen.csv")
    found = ReadLog.read(files[0], NamedFile.of(f"{files[1]}:at,product,price")).changes
    assert {key: list(at) for key, at in found.items()} == {"a": [3000, 5000]}
    every = ReadLog.read(files[0], NamedFile.of(files[1]))
    assert {key: len(at) for key, at in every.changes.items()} == {"a": 4, "b": 1}
    assert "every row counts as a change" in " ".join(every.notes)


def test_a_history_of_other_keys_or_of_another_time_is_told(tmp_path: Path) -> None:
    reads, changes = tmp_path / "reads.csv", tmp_path / "changes.csv"
    reads.write_text("".join(f"{at},a\n" for at in range(0, 1000, 10)))
    changes.write_text("3,A\n4,B\n")
    with pytest.raises(InputError, match="nothing that changes is ever read: it has 'A', and what is read is like 'a'"):
        ReadLog.read(NamedFile(reads), NamedFile(changes))
    changes.write_text("3,a\n400,a\n")
    assert "no changes in 60 % of the time of the reads" in " ".join(
        ReadLog.read(NamedFile(reads), NamedFile(changes)).notes
    )
    with pytest.raises(InputError, match="nothing tells when the source changes"):
        ReadLog.read(NamedFile(reads), None)
    with pytest.raises(ConfigError, match=r"the target is 95; it must be a share above 0 and below 1, as \.95"):
        LogQuestion(ReadLog([1.0], ["a"], {}), target=95)


def test_a_log_needs_nothing_but_the_standard_library() -> None:
    forbidden = ("numpy", "scipy", "numba", "pandas", "pyarrow", "pydantic", "typer", "rich", "yaml")
    code = (
        "import sys; from freshkeeper.simulator.budget import log_answer; import freshkeeper.commands.budget; "
        f"print([name for name in {forbidden} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
