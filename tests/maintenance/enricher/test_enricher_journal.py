"""The journal of an enricher: what `check` and `report` read of it, what it costs, and that it survives a kill."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyarrow import parquet
from servers import eventually

from freshkeeper import Enricher, EnricherJournal
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.enricher.enricher_journal import MAX_QUEUED_FETCHES, JournalWriter
from freshkeeper.maintenance.journal.enricher_tables import write_tables
from freshkeeper.simulator.budget.read_log import ReadLog
from freshkeeper.simulator.experiment.check import check
from freshkeeper.simulator.report.page import write_report
from freshkeeper.simulator.trace.event_files import NamedFile

BEGIN = 1_777_593_600_000.0
KEYS = 60


def played(directory: Path | None, reads: int = 12_000, **settings: object) -> tuple[float, "Enricher[int, int]"]:
    """Reads of keys that change at random; return the share of right reads, and the closed enricher."""
    rng, now = random.Random(3), [BEGIN]
    versions = [0] * KEYS
    right = 0
    enricher: Enricher[int, int] = Enricher(
        lambda keys: {key: versions[key] for key in keys}, "2/s", name="prices", background=False,
        clock=lambda: now[0], audit=0.1, journal=directory, **settings,  # type: ignore[arg-type]
    )  # fmt: skip
    with enricher:
        for _ in range(reads):
            now[0] += rng.expovariate(1 / 100)
            if rng.random() < 0.05:
                versions[rng.randrange(KEYS)] += 1
            key = int(rng.paretovariate(1)) % KEYS
            right += enricher.get(key).value == versions[key]
    return right / reads, enricher


def test_a_journal_tells_reads_requests_and_audits_as_they_were(tmp_path: Path) -> None:
    right, enricher = played(tmp_path)
    stats = enricher.stats()
    code, lines = check(tmp_path, 0.5, 0.4)
    assert code == 0, lines
    assert "audited answers fresh" in lines[0]
    rows = parquet.read_table(tmp_path / "evaluations.parquet").to_pylist()
    assert sum(row["requests"] for row in rows) == stats.requests
    assert sum(row["spent"] for row in rows) == pytest.approx(stats.spent)
    assert sum(row["window_mappings"] for row in rows) == 12_000
    assert all(row["spent"] <= row["budget"] + 1e-9 for row in rows)
    expected = sum(row["expected_fresh"] for row in rows) / sum(row["results"] for row in rows)
    assert expected == pytest.approx(right, abs=0.03), "pooled over all reads"
    audits = parquet.read_table(tmp_path / "audits.parquet")["fresh"].to_pylist()
    assert sum(audits) / len(audits) == pytest.approx(right, abs=0.04), "reads that waited have their share"
    refreshes = parquet.read_table(tmp_path / "refreshes.parquet").to_pylist()
    assert sum(row["changed"] is not None for row in refreshes) == stats.refreshed
    assert sum(row["changed"] is True for row in refreshes) == stats.changed


def test_the_changes_that_an_enricher_saw_are_a_history_for_the_next_budget(tmp_path: Path) -> None:
    _, enricher = played(tmp_path / "journal")
    reads = tmp_path / "reads.csv"
    reads.write_text("".join(f"{BEGIN + 100 * n:.0f},{n % KEYS}\n" for n in range(12_000)))
    log = ReadLog.read(NamedFile(reads), NamedFile(tmp_path / "journal"))
    assert sum(map(len, log.changes.values())) == enricher.stats().changed
    assert "changes that refreshes saw" in " ".join(log.notes)


@pytest.mark.slow
def test_the_report_shows_what_a_budget_bought(tmp_path: Path) -> None:
    played(tmp_path)
    page = write_report(tmp_path).read_text()
    assert "prices" in page
    assert "enricher" in page


def test_a_journal_is_bounded_and_the_oldest_goes_first(tmp_path: Path) -> None:
    played(EnricherJournal(tmp_path, largest=30_000))  # type: ignore[arg-type]
    segments = sorted(tmp_path.glob("enricher-*.jsonl"))
    assert len(segments) > 3
    assert sum(segment.stat().st_size for segment in segments) < 36_000
    first = json.loads(segments[0].read_text().splitlines()[1])[1]
    assert first > BEGIN + 600_000
    write_tables(tmp_path)
    assert parquet.read_table(tmp_path / "evaluations.parquet").num_rows > 10


def test_a_journal_that_cannot_be_written_fails_no_read_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "journal"
    now = [BEGIN]
    with Enricher(dict.fromkeys, "9/s", background=False, clock=lambda: now[0], journal=directory) as enricher:
        directory.rmdir()
        directory.write_text("a file is where the directory was")
        for _ in range(500):
            now[0] += 1000
            assert enricher.get("a").error is None
    assert [record.message.partition(":")[0] for record in caplog.records] == ["rows"]
    assert "cannot be written" in caplog.records[0].message


def test_more_fetches_than_the_queue_holds_are_counted(tmp_path: Path) -> None:
    now = [BEGIN]
    journal = EnricherJournal(tmp_path, interval="1h")
    with Enricher(dict.fromkeys, "99999/s", background=False, clock=lambda: now[0], journal=journal) as enricher:
        for key in range(MAX_QUEUED_FETCHES + 50):
            enricher.get(key)
    lines = [json.loads(line) for line in next(tmp_path.glob("*.jsonl")).read_text().splitlines()]
    assert lines[-1][2]["dropped"] == 50
    assert lines[-1][2]["misses"] == MAX_QUEUED_FETCHES + 50


def test_where_a_journal_cannot_be_it_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="name a writable one"):
        Enricher(dict.fromkeys, "9/s", journal=tmp_path / "file")
    with pytest.raises(ConfigError, match="must be above 0"):
        EnricherJournal(tmp_path, largest=0)


def test_the_thread_of_a_journal_ends_with_its_enricher(tmp_path: Path) -> None:
    enricher = Enricher(dict.fromkeys, "9/s", journal=EnricherJournal(tmp_path, interval="10ms"))
    writer = enricher._journal
    assert isinstance(writer, JournalWriter)
    thread = writer._thread
    assert thread is not None
    enricher.get("a")
    eventually(lambda: any(tmp_path.glob("*.jsonl")))
    enricher.close()
    assert not thread.is_alive()


PROGRAM = """
import os, sys
from freshkeeper import Enricher, EnricherJournal
enricher = Enricher(lambda keys: dict.fromkeys(keys, 1), "500/s", journal=EnricherJournal(sys.argv[1], interval="50ms"))
if sys.argv[2] == "fork" and os.fork() == 0:
    os.setpgid(0, 0)
assert not {"numpy", "pyarrow", "pydantic"} & set(sys.modules)
print(os.getpid(), flush=True)
n = 0
while True:
    enricher.get(n % 1000)
    n += 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["alone", "fork"])
def test_what_was_written_is_read_after_a_kill(tmp_path: Path, kind: str) -> None:
    """Two processes after a fork have a segment each; the journal is written with the standard library alone."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), kind]
    processes = 2 if kind == "fork" else 1
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(processes)]

        def written() -> bool:
            texts = [segment.read_text() for segment in tmp_path.glob("*.jsonl")]
            return len(texts) == processes and all(text.count('["interval"') > 3 for text in texts)

        eventually(written)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    segment = next(tmp_path.glob("*.jsonl"))
    segment.write_text(segment.read_text()[:-20])  # as if the kill had torn the last line
    write_tables(tmp_path)
    rows = parquet.read_table(tmp_path / "evaluations.parquet").to_pylist()
    assert len(rows) > 3 * processes - processes
    assert sum(row["results"] for row in rows) > 100


def test_a_hit_costs_the_same_with_a_journal(tmp_path: Path) -> None:
    def cost(journal: Path | None) -> float:
        with Enricher(lambda keys: dict.fromkeys(keys, 1), "100/s", journal=journal) as enricher:
            for key in range(100):
                enricher.put(key, 1)
            found = []
            for _ in range(5):
                began = time.thread_time()
                for n in range(20_000):
                    enricher.get(n % 100)
                found.append(time.thread_time() - began)
            return min(found)

    assert cost(tmp_path) < 2 * cost(None)
