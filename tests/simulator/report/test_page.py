"""The page without a browser: what it says, that it loads nothing, and that nothing missing stops it."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.simulator.report.page import write_report

pytestmark = pytest.mark.slow

Make = Callable[..., Path]
SCRIPT = re.compile(r"<script>.*?</script>", re.DOTALL)


def text(page: Path) -> str:
    """The page without its scripts and tags, spaces alike."""
    bare = re.sub(r"<(script|style)\b.*?</\1>", " ", page.read_text("utf-8"), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", bare).replace("\N{NO-BREAK SPACE}", " "))


def plots(page: Path) -> dict[str, Any]:
    """The plots with their rows."""
    text = re.search(r'<script type="application/json" id="plots">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert text
    found: dict[str, object] = json.loads(text[1])
    return found


def test_a_page_has_everything_and_is_small(whole_page: Path) -> None:
    words = text(whole_page)
    for part in (
        *("plan kept", "Freshness against budget", "Freshness by edges", "Freshness over time", "over budget", "bound"),
        *("Accumulated stale answers", "Budget spent per evaluation", "What the requests brought", "Time to decide"),
        *("Age of the copies of stale answers", "How long they had been stale", "Cost units per evaluation needed"),
        *("freshkeeper simulate configs/made.yaml", "workload.change_interval_ms", "100, 3000"),
    ):
        assert part in words
    assert "What this page cannot tell" not in words
    assert whole_page.stat().st_size < 1_600_000


def test_a_page_loads_nothing_and_is_forbidden_to(whole_page: Path) -> None:
    page = whole_page.read_text("utf-8")
    assert "default-src 'none'" in page
    bare = SCRIPT.sub("", page)
    assert not re.search(r"\b(src|action)=|url\(|@import", bare)
    assert set(re.findall(r'href="([^"#][^"]*)"', bare)) == {"data:,"}
    assert len(SCRIPT.findall(page)) == 2


def test_no_axis_leaves_it_to_the_browser_how_numbers_are_written(whole_page: Path) -> None:
    assert '"format": ""' not in json.dumps(plots(whole_page))


def test_levels_of_knowledge_have_sections_of_their_own(whole_page: Path) -> None:
    for section, knowledge in (("g0", "exact"), ("g1", "learned")):
        over_time = plots(whole_page)[f"{section}-over-time"]
        assert over_time["views"]
        assert all(f"knowledge={knowledge}" in setting for setting in over_time["views"])


def test_levels_of_knowledge_are_told_side_by_side_in_columns_of_their_own(whole_page: Path) -> None:
    words = text(whole_page)
    head = "Setting Policy Fresh, exact Fresh, learned Requests, exact Requests, learned"
    assert head in words
    assert re.search(r"budget 5 · edges 500 plan (\d+\.\d % ± \d+\.\d ){2}\d+\.\d \d+\.\d", words)


def test_every_plot_is_in_words_too(whole_page: Path) -> None:
    for plot in plots(whole_page).values():
        for view in plot["views"].values():
            assert re.search(r"\d", view["words"])
    images = re.findall(r'<div class="plot"[^>]*role="img" aria-label="([^"]+)"', whole_page.read_text("utf-8"))
    assert len(images) == len(plots(whole_page))


def test_tables_have_heads_for_columns_and_rows(whole_page: Path) -> None:
    tables = re.findall(r"<table.*?</table>", SCRIPT.sub("", whole_page.read_text("utf-8")), re.DOTALL)
    assert tables
    for table in tables:
        assert table.count('<th scope="row">') == table.count("<tr") - 1
        assert '<th scope="col">' in table


def test_the_best_is_marked_and_neither_bounds_nor_big_spenders_are(whole_page: Path) -> None:
    best = re.findall(r'<tr class="best"><th scope="row">.*?</tr>', whole_page.read_text("utf-8"), re.DOTALL)
    assert len(best) == 12
    assert all("plan" in row and "over budget" not in row for row in best)


def test_names_are_never_markup(make_run: Make) -> None:
    label = '</script><img src="x"> & "co"'
    page = write_report(make_run({label: [0.4], "lru": [0.3]}, extra={"command": "x </pre><b>"}))
    source = SCRIPT.sub("", page.read_text("utf-8"))
    assert "<img" not in source
    assert "</pre><b>" not in source
    rows = plots(page)["g0-freshness"]["views"]["default"]["rows"]["rows"]
    assert [block["is"]["policy"] for block in rows] == [label, "lru"]


def test_a_page_may_go_elsewhere(make_run: Make, tmp_path: Path) -> None:
    out = tmp_path / "new" / "page.html"
    assert write_report(make_run({"ibm": [0.4]}), out) == out
    assert out.exists()


def test_a_production_journal_has_a_page_that_says_what_is_expected(make_run: Make) -> None:
    path = make_run({"ibm": [0.9]}, expected=True, t0=1_700_000_000_000)
    (path / "run.json").unlink()
    words = text(write_report(path))
    assert "ibm is expected to have kept 90.0 % of the answers fresh" in words
    assert "The command was not recorded." in words
    assert "There is no run.json" in words


BROKEN = ("refreshes.parquet", "answers.parquet", "changes.parquet")


@pytest.mark.parametrize("broken", ["summary.csv", *BROKEN])
def test_a_broken_table_is_a_note(make_run: Make, broken: str) -> None:
    path = make_run({"ibm": [0.4]})
    (path / broken).write_bytes(b"\xff\xfe not this")
    words = text(write_report(path))
    assert "ibm kept" in words
    assert "What this page cannot tell" in words


def test_a_run_without_answers_says_so(make_run: Make) -> None:
    words = text(write_report(make_run({"ibm": [None], "lru": [None]})))
    assert "Nothing was answered: no evaluation that counts has answers whose freshness is known." in words


def test_a_journal_without_evaluations_has_a_page_that_says_so(make_run: Make, write_table: Make) -> None:
    path = make_run({"ibm": [0.4]})
    for name in ("evaluations", "refreshes", "answers"):
        write_table(path, name, [])
    assert "Nothing was answered: there is no evaluation." in text(write_report(path))


def test_what_is_no_run_is_an_error_and_no_page(tmp_path: Path) -> None:
    with pytest.raises(FreshkeeperError, match="not a run directory"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


FIGURES = ("calibration", "decide", "freshness", "over-time", "spent", "stale")


def test_pngs_are_those_plots_one_file_per_choice(make_run: Make, tmp_path: Path) -> None:
    fresh = {name: {"ibm": [0.4, 0.5], "lru": [0.2, 0.3]} for name in ("budget=5", "budget=9")}
    settings = {name: {"varied": {"budget": int(name[7:])}} for name in fresh}
    pngs = tmp_path / "png"
    write_report(make_run(fresh, settings=settings), png=pngs)
    assert sorted(file.stem for file in pngs.iterdir()) == [
        "by-budget",
        *(f"{figure}-budget={b}" for figure in FIGURES for b in (5, 9)),
    ]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in pngs.iterdir())


def test_a_recorded_trace_is_not_told_as_if_it_had_been_drawn(make_run: Make) -> None:
    drawn = {"workload": {"sns": 50}, "step": 1000}
    assert "workload.sns" in text(write_report(make_run({"ibm": [0.4]}, config=drawn)))
    assert "workload.sns" not in text(write_report(make_run({"ibm": [0.4]}, "b", config={**drawn, "trace": "mine"})))


def test_every_plot_is_there_as_csv(make_run: Make, tmp_path: Path) -> None:
    write_report(make_run({"ibm": [0.4, 0.5], "lru": [0.2, 0.3]}), table=tmp_path / "rows")
    rows = list(csv.DictReader((tmp_path / "rows" / "freshness.csv").read_text().splitlines()))
    assert [(row["policy"], float(row["mid"])) for row in rows] == [("ibm", 0.45), ("lru", 0.25)]
    assert {"over-time.csv", "stale.csv", "spent.csv"} <= {file.name for file in (tmp_path / "rows").iterdir()}
