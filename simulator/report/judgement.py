"""Every answer judged by the truth, or by audits: what the analysis of a run tells, as figures with a sentence each.

The analysis is that of `freshkeeper analyse`: what it has left in the run is read, else a small run is analysed on the
way, and of a larger one the headline.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import ceil, floor
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.simulator.report import charts, judgement_charts
from freshkeeper.simulator.report.amounts import amount, duration, percent
from freshkeeper.simulator.report.drawing import Drawn, Figure, Rows, View, framed, short
from freshkeeper.simulator.report.groups import USUAL_TARGET

SMALL, LARGE = 10_000_000, 100_000_000
"""Answers that are analysed on the way, and of which the headline is, in five to ten seconds; for more, `freshkeeper
analyse` comes first."""
CHANGE = "tenth of the entries, by how often they change"
DEGREE = "tenth of the entries, by how many keys need them"
WORST = 12
VISIBLE = 0.01
"""A share below which shorter times are left out of a picture."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Judgement:
    """The small tables of an analysis by name, and what cannot be told."""

    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    whole: bool = False
    """Whether these are all the tables that an analysis can give."""

    def of(self, name: str, setting: str, policy: str) -> list[Row]:
        """The rows of one table that are of one setting and policy."""
        return [row for row in self.tables.get(name, ()) if (row["setting"], row["policy"]) == (setting, policy)]


def judgement(run: Path, target: float | None = None) -> Judgement:
    """Of a run or a journal; empty with a note where nothing can be judged."""
    if found := _left(run, target):
        return _judgement_of(found, whole=True)
    if find_spec("duckdb") is None:
        return Judgement(notes=["Answers were not judged one by one: pip install 'freshkeeper[analysis]'."])
    from freshkeeper.maintenance.analysis import analyse, chosen, headline_alone
    from freshkeeper.maintenance.analysis.engine_choice import rows_of

    rows = rows_of(run, "answers")
    if rows > LARGE:
        return Judgement(notes=[f"{rows:,} answers were not judged one by one: freshkeeper analyse {run} does that."])
    target = target or USUAL_TARGET
    with tempfile.TemporaryDirectory(prefix="freshkeeper-") as place:
        try:
            engine, _ = chosen(str(run), "duckdb")
            if rows <= SMALL:
                return _judgement_of(analyse(engine, str(run), str(Path(place) / "analysis"), target), whole=True)
            found = headline_alone(engine, str(run), target)
            more = f"freshkeeper analyse {run} tells where stale ones come from"
            notes = [f"Of {rows:,} answers the freshness was judged; {more}.", *found["cannot_tell"]]
            return _judgement_of({**found, "cannot_tell": notes}, whole=False)
        except FreshkeeperError as error:
            return Judgement(notes=[f"Answers were not judged one by one: {error}"])


def _left(run: Path, target: float | None) -> dict[str, Any] | None:
    """What `freshkeeper analyse` left in the run, if it is of these tables and of this target."""
    file = run / "analysis" / "analysis.json"
    if not file.exists() or file.stat().st_mtime < max(table.stat().st_mtime for table in run.glob("*.parquet")):
        return None
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found if target in (None, found["target"]) else None


def _judgement_of(digest: Mapping[str, Any], whole: bool) -> Judgement:
    tables = {name: rows for name, rows in digest.items() if isinstance(rows, list) and name != "cannot_tell"}
    return Judgement(tables, list(digest["cannot_tell"]), whole)


def figures(drawn: Drawn, judged: Judgement) -> list[Figure]:
    """Those that the tables of the analysis have something for."""
    made = [
        _figure(drawn, "calibration", "Believed and found freshness", judgement_charts.believed(drawn.styles),
                lambda setting: _calibration(drawn, judged, setting),
                "By tenths of what was believed. Below the dotted line the engine is too sure."),
        _figure(drawn, "stale-for", "For how long stale answers had been stale",
                judgement_charts.along(drawn.styles, "of stale answers", "up to", _ages(judged)),
                lambda setting: _ages_view(drawn, judged, setting), "Time since the change, in doubling steps."),
        _figure(drawn, "by-change-rate", "Where stale answers come from: change",
                judgement_charts.along(drawn.styles, "of stale answers", CHANGE, TENTHS),
                lambda setting: _tenths(drawn, judged, setting, "by_change_rate", "changes"),
                "10 are those that change most often."),
        _figure(drawn, "by-degree", "Where stale answers come from: degree",
                judgement_charts.along(drawn.styles, "of stale answers", DEGREE, TENTHS),
                lambda setting: _tenths(drawn, judged, setting, "by_degree", "keys"),
                "10 are those that most keys need."),
        _figure(drawn, "stalest", "The stalest entries", judgement_charts.bars("of all stale answers", WORST),
                lambda setting: _stalest(drawn, judged, setting), ""),
        _figure(drawn, "requests", "What the requests brought", judgement_charts.parts(len(drawn.group.policies)),
                lambda setting: _requests(drawn, judged, setting), ""),
    ]  # fmt: skip
    return [figure for figure in made if figure.views]


def _figure(
    drawn: Drawn, key: str, title: str, spec: dict[str, Any], view: Callable[[str], View | None], caption: str
) -> Figure:
    found = {setting: view(setting) for setting in drawn.group.settings}
    views = {setting: one for setting, one in found.items() if one is not None}
    return Figure(key, title, spec, views, caption, drawn.chooser)


def _shown(drawn: Drawn, setting: str) -> list[str]:
    return [policy for policy in drawn.policies(setting, bounds=False) if not drawn.is_unlimited(policy)]


def _calibration(drawn: Drawn, judged: Judgement, setting: str) -> View | None:
    of = {policy: _best_basis(judged.of("calibration", setting, policy)) for policy in _shown(drawn, setting)}
    of = {policy: rows for policy, rows in of.items() if rows}
    if not of:
        return None
    numbers = [row[name] for rows in of.values() for row in rows for name in ("expected", "freshness")]
    whole = [floor(10 * min(numbers)) / 10, ceil(10 * max(numbers)) / 10]  # a single tenth has room around it
    axis = charts.frame([*numbers, *whole], cap=1.0)
    blocks = [
        {"is": {"policy": policy, "bound": False}, "columns": {
            **_flat([row["freshness"] for row in rows]), "x": short(row["expected"] for row in rows),
            "text": [
                f"{percent(row['freshness'])} of {amount(row['answers'])} answers ({row['basis']})" for row in rows
            ],
        }} for policy, rows in reversed(of.items())
    ]  # fmt: skip
    said = "; ".join(f"{policy}: {_bias(rows)}" for policy, rows in of.items())
    ends = {policy: rows[-1]["freshness"] for policy, rows in of.items()}
    last = max(rows[-1]["expected"] for rows in of.values())
    same = [{"is": {}, "columns": {"x": short(axis), "y": short(axis)}}]
    words = f"Believed against found freshness. {said}."
    return View({"rows": blocks, "same": same, **framed(last, ends, axis)}, words)


def _best_basis(rows: Sequence[Row]) -> list[Row]:
    """What is known best: the truth, else audits, else what was reported."""
    for basis in ("truth", "audited", "reported"):
        if found := [row for row in rows if row["basis"] == basis and row["freshness"] is not None]:
            return sorted(found, key=lambda row: float(row["expected"]))
    return []


def _bias(rows: Sequence[Row]) -> str:
    weight = sum(row["answers"] for row in rows)
    bias = sum(row["answers"] * (row["expected"] - row["freshness"]) for row in rows) / weight if weight else 0.0
    if abs(bias) < 0.0005:
        return "what was believed was found"
    return f"believed {100 * abs(bias):.1f} points {'more' if bias > 0 else 'less'} than was found"


def _ages(judged: Judgement) -> list[str]:
    """In words, from the first that matters on."""
    shares: dict[int, float] = {}
    for row in judged.tables.get("staleness", ()):
        if row["what"] == "overdue":
            shares[row["below_ms"]] = max(shares.get(row["below_ms"], 0.0), row["share"])
    first = min((end for end, share in shares.items() if share >= VISIBLE), default=0)
    return [duration(end) for end in sorted(shares) if end >= first]


def _ages_view(drawn: Drawn, judged: Judgement, setting: str) -> View | None:
    of: dict[str, list[Row]] = {}
    for policy in _shown(drawn, setting):
        rows = [row for row in judged.of("staleness", setting, policy) if row["what"] == "overdue"]
        if rows:
            of[policy] = rows
    medians = {
        policy: row["median_ms"]
        for policy in of
        for row in judged.of("staleness_quantiles", setting, policy)
        if row["what"] == "overdue"
    }
    said = "; ".join(
        f"{policy}: half of its stale answers for {duration(ms)} or less" for policy, ms in medians.items()
    )
    lines = {policy: {duration(row["below_ms"]): (row["share"], amount(row["answers"])) for row in rows}
             for policy, rows in of.items()}  # fmt: skip
    return _along(lines, _ages(judged), f"For how long stale answers had been stale. {said}.")


TENTHS = [str(tenth) for tenth in range(1, 11)]


def _tenths(drawn: Drawn, judged: Judgement, setting: str, table: str, unit: str) -> View | None:
    lines: dict[str, dict[str, tuple[float, str]]] = {}
    said = []
    for policy in _shown(drawn, setting):
        rows = judged.of(table, setting, policy)
        stale = sum(row["stale"] for row in rows)
        if not stale:
            continue
        lines[policy] = {
            str(row["decile"]): (row["stale"] / stale, f"{row['least']} to {row['most']} {unit}") for row in rows
        }
        top = max(rows, key=lambda row: int(row["decile"]))
        share = percent(top["stale"] / stale, 0)
        said.append(f"{share} of {policy}'s from those with {top['least']} to {top['most']} {unit}")
    words = f"Where stale answers come from, by tenths of the entries: {'; '.join(said)}."
    return _along(lines, TENTHS, words)


def _along(lines: Mapping[str, Mapping[str, tuple[float, str]]], order: Sequence[str], words: str) -> View | None:
    """Shares of each policy along words; what has none there has a share of zero."""
    if not lines:
        return None
    whole = {policy: [there.get(word, (0.0, "none")) for word in order] for policy, there in lines.items()}
    axis = charts.frame([share for one in whole.values() for share, _ in one], zero=True, cap=1.0)
    blocks = [
        {"is": {"policy": policy, "bound": False}, "columns": {
            "x": list(order), **_flat([share for share, _ in one]),
            "text": [f"{percent(share)}: {text}" for share, text in one],
        }} for policy, one in reversed(whole.items())
    ]  # fmt: skip
    ends = {policy: one[-1][0] for policy, one in whole.items()}
    return View({"rows": blocks, **framed(order[-1], ends, axis)}, words)


def _flat(values: Iterable[float]) -> dict[str, list[Any]]:
    """Points for a chart whose intervals have no width."""
    told = short(values)
    return {"mid": told, "low": told, "high": told}


def _stalest(drawn: Drawn, judged: Judgement, setting: str) -> View | None:
    """Of the best policy, which is the only one in production."""
    policy = next(iter(_shown(drawn, setting)), "")
    found = judged.of("top_stale", setting, policy)[:WORST]
    if not found:
        return None
    several = len({row["seed"] for row in found}) > 1
    names = [f"{row['sr']} (seed {row['seed']})" if several else str(row["sr"]) for row in found]
    columns = {
        "name": names, "mid": short(row["share_of_stale"] for row in found),
        "text": [f"{amount(row['stale'])} of {amount(row['answers'])}" for row in found],
    }  # fmt: skip
    rows: Rows = {"rows": [{"is": {"paint": drawn.styles[policy].paint}, "columns": columns}]}
    together = percent(sum(row["share_of_stale"] for row in found), 0)
    words = f"The {len(found)} stalest entries of {policy} make {together} of its stale answers; {names[0]} leads."
    return View(rows, words)


def _requests(drawn: Drawn, judged: Judgement, setting: str) -> View | None:
    blocks, said = [], []
    for policy in _shown(drawn, setting):
        for row in judged.of("wasted", setting, policy):
            wasted = row["wasted"] if row["wasted"] is not None else row["wasted_as_reported"]
            asked = row["refreshes"]
            if not asked or wasted is None:
                continue
            useful = asked - row["failed"] - row["misses"] - wasted
            told = dict(zip(judgement_charts.OUTCOMES, (useful, wasted, row["misses"], row["failed"]), strict=True))
            columns: dict[str, list[Any]] = {
                "part": list(told), "mid": short(number / asked for number in told.values()),
                "rank": list(range(len(told))),
                "text": [f"{amount(number)} of {amount(asked)}" for number in told.values()],
            }  # fmt: skip
            blocks.append({"is": {"policy": policy}, "columns": columns})
            shares = percent(useful / asked, 0), percent(wasted / asked, 0)
            said.append(f"{shares[0]} of {policy}'s found a change, {shares[1]} nothing new")
    return View({"rows": blocks}, f"What the requests brought: {'; '.join(said)}.") if blocks else None
