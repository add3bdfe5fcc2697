"""Simulations from Python: tables for every library, runs that grow, files of one's own, and what a script may do."""

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pytest

from freshkeeper import Ranked, simulate
from freshkeeper.commands import screen
from freshkeeper.commands.screen import Bar
from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.policies.base import Round
from freshkeeper.policies.gain import Gain

SMALL: dict[str, Any] = {
    "workload": {"sns": 12, "srs": 10, "edges": 40},
    "evaluations": 10,
    "bound": "never",
    "progress": False,
}


def test_a_result_is_a_tidy_table_for_pandas_polars_and_arrow() -> None:
    result = simulate("lru,plan", sweep={"workload.edges": [30, 40], "budget": [1, 2]}, seeds=3, **SMALL)
    summary = result.summary()
    polar, arrow = summary.to_polars(), summary.to_arrow()
    frame: Any = summary.to_pandas()
    assert (len(summary), frame.shape[0], polar.height, arrow.num_rows) == (8, 8, 8, 8)
    assert list(frame.columns) == polar.columns == arrow.column_names == summary.columns
    assert frame["workload.edges"].tolist() == [30, 30, 30, 30, 40, 40, 40, 40]
    assert polar["budget"].to_list() == [1.0, 1.0, 2.0, 2.0] * 2
    assert frame["policy"].tolist() == ["lru", "plan"] * 4
    assert frame["freshness"].between(0, 1).all()
    assert polars.DataFrame(summary).equals(polar)
    as_arrow: Any = summary
    assert pa.table(as_arrow).equals(arrow)
    evaluations: Any = result.evaluations().to_pandas()
    assert len(evaluations) == 8 * 3 * 10
    counted = evaluations[~evaluations["warmup"] & (evaluations["results"] > 0)]
    shares = counted.assign(share=counted["fresh"] / counted["results"])
    by_seed = shares.groupby(["workload.edges", "budget", "policy", "seed"])["share"].mean()
    mean = by_seed.groupby(["workload.edges", "budget", "policy"]).mean()
    told = frame.set_index(["workload.edges", "budget", "policy"])["freshness"].sort_index()
    assert mean.to_dict() == pytest.approx(told.to_dict())
    assert {row["policy"] for row in result.baselines()} == {"no-cache", "ttl", "refresh-ahead", "fetch-once"}


def test_a_result_shows_itself_and_writes_its_page(tmp_path: Path) -> None:
    result = simulate("lru,plan", budget=1, seeds=2, **SMALL)
    text, html = repr(result), result._repr_html_()
    assert text.startswith("case bgp, knowledge exact, budget 1, bank 0, seeds 2\n")
    assert re.search(r"│ plan +│ +0\.\d+ │ +[\d.e-]+ │ +1 │", text)
    assert "the clairvoyant bound is left out: it was not asked for" in text
    assert html.count("<tr>") == 3
    page = result.report(tmp_path / "page.html")
    assert "<html" in page.read_text()


def test_a_temporary_run_lasts_as_long_as_its_result() -> None:
    result = simulate("lru", budget=1, seeds=1, **SMALL)
    place = result.path
    assert (place / "run.json").exists()
    del result
    assert not place.exists()


def test_a_run_of_a_directory_grows_and_is_not_done_again(tmp_path: Path) -> None:
    first = list(simulate("lru", budget=1, seeds=2, out=tmp_path / "run", **SMALL).summary())
    grown = list(simulate("lru,plan", budget=1, seeds=3, out=tmp_path / "run", **SMALL).summary())
    assert [[row["seeds"] for row in rows] for rows in (first, grown)] == [[2], [3, 3]]
    written = (tmp_path / "run" / "evaluations.parquet").stat().st_mtime_ns
    again = simulate("lru,plan", budget=1, seeds=3, out=tmp_path / "run", **SMALL)
    assert list(again.summary()) == grown
    assert (tmp_path / "run" / "evaluations.parquet").stat().st_mtime_ns == written
    with pytest.raises(ConfigError, match=r"holds a run of another config \(budget was 1 and is 2\)"):
        simulate("lru,plan", budget=2, seeds=3, out=tmp_path / "run", **SMALL)
    with pytest.raises(ConfigError, match="holds a run already"):
        simulate("lru,plan", budget=1, seeds=3, out=tmp_path / "run", resume=False, **SMALL)


class Needed(Ranked):
    """A policy of this module, without a name of its own."""

    def score(self, round: Round) -> Floats:
        return np.where(round.stale_candidates, round.demand[:, 0], -np.inf)


def test_policies_are_names_mappings_classes_and_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, Needed.__module__, sys.modules.get(Needed.__module__, sys.modules[__name__]))
    policies: list[Any] = ["lru", "fba(literal=true)", {"name": "gain"}, Gain(windows=2), Needed]
    result = simulate(policies, budget=1, seeds=1, **SMALL)
    titles = [row["policy"] for row in result.summary()]
    assert titles[:4] == ["lru", "fba(literal=true)", "gain", "gain(windows=2)"]
    assert titles[4].lower() == "needed"


def test_a_policy_inside_a_function_says_where_it_belongs() -> None:
    class Hidden(Needed):
        pass

    with pytest.raises(ConfigError, match="the policy Hidden is defined inside a function; define it at the top"):
        simulate(Hidden, **SMALL)


def clicks_and_prices(place: Path) -> tuple[str, str]:
    """Two days of clicks on twenty products, and their prices, of which half change every three hours."""
    drawn = np.random.default_rng(1)
    clicks = np.sort(drawn.uniform(0, 48 * 3600, 2000)).astype(int)
    lines = [f"{1_777_593_600 + at},p{drawn.integers(20)}" for at in clicks]
    (place / "clicks.csv").write_text("at,product\n" + "\n".join(lines) + "\n")
    rows = []
    for product in range(20):
        every = 3 * 3600 if product % 2 else 40 * 3600
        for n, at in enumerate(range(0, 48 * 3600, every)):
            rows.append((1_777_593_600 + at + product, product, 100 + n))
    text = "\n".join(f"{at},p{product},{price}" for at, product, price in sorted(rows))
    (place / "prices.csv").write_text(f"at,product,price\n{text}\n")
    return f"{place}/clicks.csv:at,product", f"{place}/prices.csv:at,product,price"


def test_files_of_ones_own_are_simulated_under_a_window_that_fits_them(tmp_path: Path) -> None:
    arrivals, changes = clicks_and_prices(tmp_path)
    result = simulate("lru,plan", arrivals=arrivals, changes=changes, budget=1, knowledge="learned", progress=False)
    assert "Window 4h, step 1h: as its arrivals suggest; --window and --step say otherwise." in result.notes
    assert [row["seeds"] for row in result.summary()] == [1, 1]
    given = simulate("lru", arrivals=arrivals, changes=changes, window="4h", step="1h", progress=False)
    assert not any("suggest" in note for note in given.notes)
    with pytest.raises(ConfigError, match="give a trace, or arrivals with changes"):
        simulate("lru", changes=changes)


def test_a_setting_that_tells_no_policies_apart_is_warned_of_with_the_reason(tmp_path: Path) -> None:
    arrivals, changes = clicks_and_prices(tmp_path)
    rich = simulate("lru,plan", arrivals=arrivals, changes=changes, budget=50, progress=False)
    assert any(
        re.search(r"all policies are wholly fresh, .* change per evaluation, and a budget of 50 pays for all", note)
        for note in rich.notes
    )
    still = simulate(
        "lru,plan", sweep={"budget": [1, 3]}, seeds=1, **{**SMALL, "workload": {"change_interval_ms": [10**6, 10**6]}}
    )
    said = [note for note in still.notes if "wholly fresh" in note]
    assert [note.split(",")[0] for note in said] == [
        "all policies are wholly fresh with budget=1",
        "all policies are wholly fresh with budget=3",
    ]
    assert not any("wholly" in note for note in simulate("lru,plan", budget=1, seeds=1, **SMALL).notes)


SCRIPT = """
import numpy as np
from freshkeeper import Ranked, simulate

class Mine(Ranked):
    def score(self, round):
        return np.where(round.stale_candidates, round.demand[:, 0], -np.inf)

settings = dict(budget=1, seeds=4, evaluations=10, bound="never", progress=False, workload={"edges": 60})
print(simulate("lru,plan", jobs=2, **settings).summary().to_pandas()["seeds"].tolist())
print(simulate(["lru", Mine], jobs=2, **settings).summary().to_pandas()["policy"].str.lower().tolist())
"""


@pytest.mark.slow
def test_a_plain_script_may_use_several_processes_and_policies_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.stdout.splitlines() == ["[4, 4]", "['lru', 'mine']"], done.stderr


def test_without_a_terminal_a_line_with_the_time_left_comes_at_intervals(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(screen, "LINE_INTERVAL_S", 0.05)
    bar = Bar("simulating", "runs")
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with bar.running():
        bar.update(3, 10, counted=False)
        assert bar.line == "simulating: 3 of 10 runs, time left unknown"
        now[0] += 50
        bar.update(4, 10)
        assert bar.line == "simulating: 4 of 10 runs, 5 min 0 s left"
        said = ""
        deadline = time.perf_counter() + 20
        while said.count("5 min 0 s left") < 2 and time.perf_counter() < deadline:
            said += capfd.readouterr().err
        bar.update(10, 10)
    assert said.count("simulating: 4 of 10 runs, 5 min 0 s left\n") >= 2
    assert bar.line == "simulating: 10 of 10 runs"


NOTEBOOK_CELL = """
import numpy as np
from freshkeeper import Ranked, simulate

class Mine(Ranked):
    def score(self, round):
        return np.where(round.stale_candidates, round.demand[:, 0], -np.inf)

simulate(["lru", Mine], budget=1, seeds=2, evaluations=10, bound="never", jobs=2)
"""


@pytest.mark.slow
def test_a_notebook_shows_a_bar_and_the_result_as_html(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK_CELL)])  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    bar, result = notebook.cells[0].outputs
    assert bar["data"]["text/html"] == '<div><progress value="2" max="2"></progress> simulating: 2 of 2 runs</div>'
    assert result["data"]["text/html"].count("<tr>") == 3
