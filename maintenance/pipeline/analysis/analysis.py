"""A whole analysis: every table as Parquet, one JSON with all that is small, and in words what cannot be told."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from freshkeeper.maintenance.files import whole_directory
from freshkeeper.maintenance.pipeline.analysis import (
    audit_analysis,
    headline,
    journal_tables,
    known_from_tables,
    over_evaluations,
    refresh_analysis,
    served_entries,
)
from freshkeeper.maintenance.pipeline.analysis.analysis_database import Database, Row
from freshkeeper.maintenance.pipeline.analysis.analysis_engine import Engine, located
from freshkeeper.maintenance.pipeline.analysis.journal_tables import AnalysisError
from freshkeeper.maintenance.pipeline.analysis.judging import Parts, together
from freshkeeper.maintenance.pipeline.spark_session import first_words
from freshkeeper.policies.errors import ConfigError

DIGEST = "analysis.json"
PER_EVALUATION = "seed, k, t_ms, warmup, results, fresh, freshness, basis, reported, expected_fresh"
CLOSE = 1e-9
FAILURES: tuple[type[Exception], ...] = (duckdb.Error, pa.ArrowException)
LARGE = ("over_time", "each_evaluation")
"""Tables that grow with the run: Parquet alone holds them."""
NAMES = {"each_evaluation": "evaluations", "audit_shares": "audits"}
"""What tables are called on disk whose names the journal's have."""


class Analysis:
    """What can be told of a run: named tables, computed when they are written or collected."""

    def __init__(self, engine: Engine, database: Database, run: str, target: float = 0.95, top: int = 20) -> None:
        """Judge every answer; `target` is a freshness to be met, `top` how many stale entries are named."""
        self.database, self.top = database, top
        self.found = journal_tables.read(engine, database, run)
        self.notes = list(self.found.notes)
        evaluations, audits = "evaluations" in self.found.there, "audits" in self.found.there
        if not evaluations and not self.found.judged:
            raise AnalysisError("there are answers, but neither evaluations nor changes: nothing can be told of them")
        for name, rows in self._judged(engine, f"{located(run)}/answers.parquet").items():
            database.take(name, rows)
        if "changes" in self.found.there:
            database.view("changes", journal_tables.changes(self.found))
        database.keep("evaluated", headline.evaluated(evaluations))
        database.keep("told_seeds", headline.by_seed(target))
        if audits:
            database.keep("audited", audit_analysis.AUDITED)
        seeds = audit_analysis.STAND_IN if audits else "SELECT * FROM told_seeds"
        database.keep("seeds", seeds, f"{headline.SERIES}, seed")

    def _judged(self, engine: Engine, answers: str) -> Parts:
        """What one pass over the answers tells; nothing where there is no truth."""
        if not self.found.judged:
            return together([])
        known = known_from_tables.known(self.database, self.found)
        judged = together(list(engine.judged(answers, known, self.found.moment)))
        if not known.lookup_keys and "aggregate" in judged["truths"]["case"].unique().to_pylist():
            self.notes.append("Aggregates without their lookup key are counted input by input.")
        return judged

    def tables(self) -> Iterator[str]:
        """Every table that there can be, by name."""
        yield from self._evaluations()
        if self.found.judged:
            yield from self._entries()
        if "refreshes" in self.found.there:
            yield from self._refreshes()

    def _kept(self, name: str, query: str, order: str) -> str:
        self.database.keep(name, query, order)
        return name

    def _evaluations(self) -> Iterator[str]:
        series = headline.SERIES
        (row,) = self.database.rows("SELECT count(DISTINCT seed) AS most FROM seeds")
        yield self._kept("freshness", headline.headline(row["most"]), series)
        yield "seeds"
        self.database.view("each_evaluation", f"SELECT {series}, {PER_EVALUATION} FROM evaluated")
        yield "each_evaluation"
        self.database.view("over_time", over_evaluations.OVER_TIME)
        yield "over_time"
        audits = "audits" in self.found.there
        both = f" UNION ALL SELECT * FROM ({audit_analysis.CALIBRATION}) AS by_audits" if audits else ""
        calibration = f"SELECT * FROM ({over_evaluations.CALIBRATION}) AS by_truth{both}"
        yield self._kept("calibration", calibration, f"{series}, basis, tenth")
        if audits:
            audit_analysis.shares(self.database)
            yield "audit_shares"
        if "evaluations" in self.found.there:
            self._budgets()
            yield self._kept("budget", over_evaluations.BUDGET, series)
            latency = over_evaluations.latency("refreshes" in self.found.there)
            yield self._kept("latency", latency, "setting, policy, part")

    def _budgets(self) -> None:
        """γ by setting; with no word of it what was paid in cannot be told."""
        about = self.found.settings.items()
        found = [(name, float(setting.budget)) for name, setting in about if setting.budget is not None]
        if not found:
            said = "There is no run.json that says what was paid in, so the use of the budget cannot be told."
            self.notes.append(said)
        self.database.given("gammas", {"setting": "string", "gamma": "double"}, found)

    def _entries(self) -> Iterator[str]:
        database, order = self.database, "setting, policy, decile"
        database.keep("degrees", served_entries.DEGREES)
        database.keep("changed", served_entries.CHANGED)
        (row,) = database.rows(served_entries.UNCHANGED)
        if row["without"]:
            said = f"Of {row['entries']} entries {row['without']} have no change in changes.parquet"
            self.notes.append(f"{said}; their copies count as fresh.")
        yield self._kept("by_degree", served_entries.by_decile("degrees", "degree"), order)
        yield self._kept("by_change_rate", served_entries.by_decile("changed", "changes"), order)
        yield self._kept("top_stale", served_entries.top_stale(self.top), "setting, policy, rank")
        yield self._kept("staleness", served_entries.OCTAVES, "setting, policy, what, from_ms")
        yield self._kept("staleness_quantiles", served_entries.STALENESS_QUANTILES, "setting, policy, what")

    def _refreshes(self) -> Iterator[str]:
        self.database.keep("counting", refresh_analysis.COUNTING)
        wasted = refresh_analysis.wasted(self.found.judged, "changes" in self.found.there)
        yield self._kept("wasted", wasted, "setting, policy")
        if self.found.judged:
            yield self._kept("missed", refresh_analysis.MISSED, "setting, policy")


def analyse(engine: Engine, run: str, out: str | None = None, target: float = 0.95, top: int = 20) -> dict[str, Any]:
    """Analyse a run; write tables and analysis.json into `out` (default: analysis in the run), return the latter.

    The engine is closed when it is done.
    """
    with closing(engine), closing(Database()) as database:
        if not 0 <= target <= 1:
            raise ConfigError(f"the target is {target:g}; right would be a freshness from 0 to 1")
        place = located(out or f"{run}/analysis")
        _check(place)
        try:
            analysis = Analysis(engine, database, run, target, top)
            with _unfinished(engine, place) as unfinished:
                return _written(analysis, {"run": run, "target": target}, unfinished)
        except FAILURES + engine.failures as error:
            raise AnalysisError(f"{run} could not be analysed: {first_words(error)}") from error


def _written(analysis: Analysis, digest: dict[str, Any], place: Path) -> dict[str, Any]:
    """Every table written, and what is small collected."""
    for table in analysis.tables():
        name = NAMES.get(table, table)
        if table not in LARGE:
            digest[name] = analysis.database.rows(f"SELECT * FROM {table}")
        analysis.database.write(table, place / f"{name}.parquet")
    digest["cannot_tell"] = analysis.notes + _remarks(digest)
    (place / DIGEST).write_text(json.dumps(digest, indent=1), "utf-8")
    return digest


def _remarks(digest: dict[str, Any]) -> list[str]:
    """What a reader of the headline has to know."""
    rows: list[Row] = digest["freshness"]
    audited = {_series(row): row for row in digest.get("audits", ())}
    said = [] if rows else ["No evaluation that counts has answers, so there is no freshness."]
    untrue: dict[str, list[str]] = {}
    for row in rows:
        whose = " ".join(word for word in (row["setting"], row["policy"]) if word) or "the run"
        if row["basis"] == "audited":
            share = audited[_series(row)]
            said.append(
                f"The freshness of {whose} is an estimate from {share['audits']} audited answers: with 95 % confidence "
                f"between {share['low']:.4f} and {share['high']:.4f}."
            )
        elif row["basis"] != "truth":
            untrue.setdefault(row["basis"], []).append(whose)
        elif row["reported"] is not None and abs(row["reported"] - row["freshness"]) > CLOSE:
            said.append(f"The engine reported {row['reported']:.4f} for {whose}; the truth is {row['freshness']:.4f}.")
    for basis, all_of in untrue.items():
        whose = all_of[0] if len(all_of) == 1 else f"{len(all_of)} of {len(rows)} settings and policies"
        said.append(f"The freshness of {whose} is not the truth but what was {basis} by the engine.")
    return said


def _series(row: Row) -> tuple[object, ...]:
    return tuple(row[word] for word in ("setting", "policy", "case", "knowledge"))


def _check(place: str) -> None:
    """An analysis replaces an earlier one and nothing else."""
    path = Path(place)
    if "://" in place or not path.exists() or (path / DIGEST).exists():
        return
    if not path.is_dir() or any(path.iterdir()):
        raise ConfigError(f"{place} holds something that is no analysis; name another directory (--out)")


@contextmanager
def _unfinished(engine: Engine, place: str) -> Iterator[Path]:
    """Where to write, so that a reader sees a whole analysis or none; on a cluster's file system nearly so."""
    if "://" not in place:
        with whole_directory(Path(place)) as part:
            yield part
        return
    with tempfile.TemporaryDirectory(prefix="freshkeeper-") as made:
        yield Path(made)
        engine.deliver(Path(made), place)
