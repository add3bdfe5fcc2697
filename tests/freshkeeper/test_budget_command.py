"""`freshkeeper budget` as it is called, and traces from files whose columns are named on the line."""

import html
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from calls import Call

from freshkeeper.commands.experiments import processes
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.trace.trace import write_trace
from freshkeeper.simulator.trace.workload import Workload, generate

pytestmark = pytest.mark.filterwarnings("default")
KEYS = 12
HOUR = 3600


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Clicks in two columns, and a history of prices: of a product with a high number it changes more often."""
    rng = np.random.default_rng(1)
    began = 1_777_593_600
    clicks = sorted(zip(rng.integers(0, HOUR, 1500), rng.integers(0, KEYS, 1500), strict=True))
    lines = [f"{began + at},p{product}" for at, product in clicks]
    (tmp_path / "clicks.csv").write_text("\n".join(["at,product", *lines]) + "\n")
    prices = [
        f"2026-05-01T{at // HOUR:02}:{at % HOUR // 60:02}:{at % 60:02}Z,p{product},{at // (60 * (KEYS - product))}"
        for at in range(0, HOUR, 20)
        for product in range(KEYS)
    ]
    (tmp_path / "prices.csv").write_text("\n".join(["seen,item,price", *prices]) + "\n")
    return tmp_path


PRICES = "prices.csv:seen,item,price"


def test_a_log_of_reads_and_a_history_of_prices_are_enough(call: Call, shop: Path) -> None:
    code, out, err = call("budget", "clicks.csv", "--changes", PRICES, "--target", ".8", "--price", "0.001", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["answer"].startswith("An Enricher keeps 80 % of the reads fresh with ")
    assert "; a TTL cache needs " in told["answer"]
    assert told["enricher"].startswith('Enricher(lookup, budget="')
    names = ["Enricher", "Enricher, serves stale", "TTL, reads wait", "TTL, serves stale", "refresh-ahead", "no cache"]
    assert [row["name"] for row in told["rows"]] == names
    ours, _, ttl, *_, uncached = told["rows"]
    assert 0.8 <= ours["fresh"] < 0.82
    assert ttl["requests"] == pytest.approx(ours["requests"], rel=0.03)
    assert uncached["fresh"] == 1
    assert "clicks.csv: at is the time (s), product the key; 1,500 rows from 2026-05-01 00:00:07" in err
    assert "prices.csv: item changed when price differs." in err


def test_the_line_to_copy_is_printed_alone_on_standard_output_after_the_table(call: Call, shop: Path) -> None:
    code, out, err = call("budget", "clicks.csv", "--changes", PRICES, "--target", ".8", "--on-stale", "serve")
    assert code == 0, err
    assert "TTL, serves stale" in out
    assert 'An Enricher(on_stale="serve") keeps 80 % of the reads fresh with ' in err
    assert re.fullmatch(r'Enricher\(lookup, budget="\d+/day", bank="5m", on_stale="serve"\)', out.splitlines()[-1])


@pytest.mark.slow
def test_with_a_policy_a_log_of_reads_is_a_trace_with_windows(call: Call, shop: Path) -> None:
    options = ["--changes", PRICES, "--target", ".8", "--policy", "lru", "--jobs", "1", "--out", "answer"]
    code, out, err = call("budget", "clicks.csv", *options, "--price", "0.001", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["answer"].startswith("lru keeps 80")
    assert [row["policy"] for row in told["rows"]] == ["lru", "ttl", "refresh-ahead", "no-cache", "fetch-once"]
    assert "prices.csv: item changes at seen (iso), whenever price differs from the row before." in err
    assert "Window 5m" in err or "step" in err
    assert (shop / "answer" / "budget.html").exists()


@pytest.mark.slow
def test_the_page_of_a_log_has_the_sentence_the_line_and_the_frontier(call: Call, shop: Path) -> None:
    code, out, err = call("budget", "clicks.csv", "--changes", PRICES, "--target", ".8", "--out", "answer", "--json")
    assert code == 0, err
    told, page = json.loads(out), (shop / "answer" / "budget.html").read_text()
    assert told["answer"] in page
    assert html.escape(told["enricher"], quote=True).replace("&quot;", "&#34;") in page
    assert (shop / "answer" / "frontier.png").stat().st_size > 10_000
    again = call("budget", "clicks.csv", "--changes", PRICES, "--out", "answer")
    assert (again[0], "holds an answer already" in again[2]) == (2, True)


def test_without_changes_there_is_no_freshness_and_it_says_where_they_may_come_from(call: Call, shop: Path) -> None:
    code, _, err = call("budget", "clicks.csv")
    assert code != 0
    assert "nothing tells when the source changes" in err
    assert "--changes FILE" in err


def test_columns_are_named_behind_the_file_and_near_misses_are_told(call: Call, shop: Path) -> None:
    assert "must be there once; did you mean" in call("budget", "clicks.csv:at,produkt", "--changes", "prices.csv")[2]
    assert "2 columns must be named" in call("budget", "clicks.csv:at", "--changes", "prices.csv")[2]
    assert "does not exist" in call("budget", "click.csv", "--changes", "prices.csv")[2]
    assert "nothing that changes is ever read" in call("budget", "clicks.csv", "--changes", "prices.csv:seen,price")[2]


def test_trace_convert_takes_columns_by_flags_and_changes_from_a_journal(call: Call, shop: Path) -> None:
    flags = ["--arrivals", "clicks.csv", "--changes", "prices.csv:seen,item,price"]
    code, _, err = call("trace", "convert", "mine", *flags)
    assert code == 0
    assert f"mine: 1,500 arrivals, {KEYS} edges" in err
    made = ["simulate", "--trace", "mine", "--window", "5m", "--step", "1m", "--policy", "lru", "--budget", "3"]
    assert call(*made, "--knowledge", "learned", "--set", "answers=true", "--out", "run", "--no-report")[0] == 0
    code, _, err = call("trace", "convert", "again", "--arrivals", "clicks.csv", "--changes", "run")
    assert (code, f"again: 1,500 arrivals, {KEYS} edges" in err) == (0, True)
    assert "give a mapping and what to write" in call("trace", "convert", "neither")[2]


def test_a_replay_of_a_trace_says_the_window_and_the_step_that_its_arrivals_suggest(call: Call, shop: Path) -> None:
    call("trace", "convert", "mine", "--arrivals", "clicks.csv", "--changes", "prices.csv:seen,item,price")
    code, _, err = call("replay", "mine", "--policy", "lru", "--budget", "2", "--no-report", "--out", "what-if")
    assert code == 0
    assert "Window 4m, step 1m: as its arrivals suggest" in err
    about = json.loads((shop / "what-if" / "run.json").read_text())["settings"]["default"]
    assert (about["range_ms"], about["step_ms"]) == (240_000, 60_000)


@pytest.mark.slow
def test_a_run_of_a_journal_is_asked_the_same_question(call: Call, shop: Path) -> None:
    made = ["simulate", "--set", "workload.edges=50", "--set", "workload.sns=10", "--set", "workload.srs=10"]
    call(*made, "--evaluations", "40", "--seeds", "2", "--policy", "lru", "--knowledge", "learned", "--out", "run")
    code, out, err = call("budget", "run", "--target", ".6", "--policy", "lru,gain", "--jobs", "2", "--json")
    assert code == 0, err
    assert "Intervals (95 %) are over 2 seeds" in " ".join(json.loads(out)["notes"])


@pytest.mark.parametrize(("edges", "runs", "many"), [(10, 149, False), (10, 150, True), (2001, 2, True)])
def test_processes_of_their_own_are_for_runs_that_are_large_or_many(edges: int, runs: int, many: bool) -> None:
    experiment = resolve({"workload": {"edges": edges}, "evaluations": 50, "policies": "lru"})
    assert processes(experiment, 2, runs) == (min(2, os.cpu_count() or 1) if many else 1)
    assert processes(experiment, 1, runs) == 1


def test_of_a_recorded_trace_its_own_evaluations_and_edges_are_counted(tmp_path: Path) -> None:
    write_trace(generate(Workload(edges=60, sns=10, srs=20, duration_ms=9_000), 1), tmp_path / "trace")
    keys = {"trace": str(tmp_path / "trace"), "policies": "lru", "window": "4s"}
    assert processes(resolve({**keys, "step": "1s"}), 2, 2) == 1
    assert processes(resolve({**keys, "step": "4ms"}), 2, 2) == min(2, os.cpu_count() or 1)
