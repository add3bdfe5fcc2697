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
    over_evaluations,
    refresh_analysis,
    served_entries,
)
from freshkeeper.maintenance.pipeline.analysis.analysis_database import Database, Row
from freshkeeper.maintenance.pipeline.analysis.duckdb_engine import DuckDB, located
from freshkeeper.maintenance.pipeline.analysis.journal_tables import AnalysisError
from freshkeeper.maintenance.pipeline.analysis.judging import Parts, added_up, judge
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

    def __init__(self, engine: DuckDB, database: Database, run: str, target: float, headline_alone: bool) -> None:
        """Judge every answer; `target` is a freshness to be met."""
        self.database = database
        self.found = journal_tables.read(engine, database, run)
        self.notes = list(self.found.notes)
        evaluations = "evaluations" in self.found.there
        if not evaluations and not self.found.judged:
            raise AnalysisError("there are answers, but neither evaluations nor changes: nothing can be told of them")
        self._judge(engine, f"{located(run)}/answers.parquet", headline_alone)
        if not evaluations:
            database.view("evaluations", headline.EVALUATIONS)
        if "changes" in self.found.there:
            database.view("changes", journal_tables.changes(self.found))
        database.keep("evaluated", headline.EVALUATED)
        database.keep("told_seeds", headline.by_seed(target))
        database.keep("audited", audit_analysis.AUDITED)
        database.keep("seeds", audit_analysis.STAND_IN, f"{headline.SERIES}, seed")

    def _judge(self, engine: DuckDB, answers: str, headline_alone: bool) -> None:
        """What answers tell; nothing where there is no truth."""
        pieces: list[Parts] = []
        if self.found.judged:
            pieces += engine.judged(answers, judge(self.database, self.found, headline_alone))
        added_up(self.database, pieces, headline_alone)
        whole = "SELECT 1 FROM truths WHERE \"case\" = 'aggregate' LIMIT 1"
        if "sn" not in self.found.answers and self.database.rows(whole):
            self.notes.append("Aggregates without their lookup key are counted input by input.")

    def headline(self) -> Iterator[str]:
        """The tables that a freshness is told by, and what was expected."""
        (row,) = self.database.rows("SELECT count(DISTINCT seed) AS most FROM seeds")
        yield self._kept("freshness", headline.headline(row["most"]), headline.SERIES)
        if "audits" in self.found.there:
            audit_analysis.shares(self.database)
            yield "audit_shares"
        calibration = f"({over_evaluations.CALIBRATION}) UNION ALL ({audit_analysis.CALIBRATION})"
        yield self._kept("calibration", calibration, f"{headline.SERIES}, basis, tenth")

    def tables(self, top: int) -> Iterator[str]:
        """Every table that there can be, by name; `top` is how many stale entries are named."""
        yield from self.headline()
        yield from self._evaluations()
        if self.found.judged:
            yield from self._entries(top)
        if "refreshes" in self.found.there:
            yield from self._refreshes()

    def _kept(self, name: str, query: str, order: str) -> str:
        self.database.keep(name, query, order)
        return name

    def _evaluations(self) -> Iterator[str]:
        series = headline.SERIES
        yield "seeds"
        self.database.view("each_evaluation", f"SELECT {series}, {PER_EVALUATION} FROM evaluated")
        yield "each_evaluation"
        self.database.view("over_time", over_evaluations.OVER_TIME)
        yield "over_time"
        if "evaluations" in self.found.there:
            self._budgets()
            yield self._kept("budget", over_evaluations.BUDGET, series)
            yield self._kept("latency", over_evaluations.LATENCY, "setting, policy, part")

    def _budgets(self) -> None:
        """γ by setting; with no word of it what was paid in cannot be told."""
        settings = self.found.settings.items()
        found = [{"setting": name, "gamma": about.budget} for name, about in settings if about.budget is not None]
        if not found:
            said = "There is no run.json that says what was paid in, so the use of the budget cannot be told."
            self.notes.append(said)
        schema = pa.schema({"setting": pa.string(), "gamma": pa.float64()})
        self.database.take("gammas", pa.Table.from_pylist(found, schema))

    def _entries(self, top: int) -> Iterator[str]:
        database, order = self.database, "setting, policy, decile"
        database.keep("degrees", served_entries.DEGREES)
        database.keep("changed", served_entries.CHANGED)
        (row,) = database.rows(served_entries.UNCHANGED)
        if row["without"]:
            said = f"Of {row['entries']} entries {row['without']} have no change in changes.parquet"
            self.notes.append(f"{said}; their copies count as fresh.")
        yield self._kept("by_degree", served_entries.by_decile("degrees", "degree"), order)
        yield self._kept("by_change_rate", served_entries.by_decile("changed", "changes"), order)
        yield self._kept("top_stale", served_entries.top_stale(top), "setting, policy, rank")
        yield self._kept("staleness", served_entries.OCTAVES, "setting, policy, what, from_ms")
        yield self._kept("staleness_quantiles", served_entries.STALENESS_QUANTILES, "setting, policy, what")

    def _refreshes(self) -> Iterator[str]:
        self.database.keep("counting", refresh_analysis.COUNTING)
        wasted = refresh_analysis.wasted("changes" in self.found.there)
        yield self._kept("wasted", wasted, "setting, policy")
        if self.found.judged:
            yield self._kept("missed", refresh_analysis.MISSED, "setting, policy")


def analyse(engine: DuckDB, run: str, out: str | None = None, target: float = 0.95, top: int = 20) -> dict[str, Any]:
    """Analyse a run; write tables and analysis.json into `out` (default: analysis in the run), return the latter.

    The engine is closed when it is done.
    """
    place = located(out or f"{run}/analysis")
    with _begun(engine, run, target, place) as analysis, _unfinished(engine, place) as unfinished:
        digest: dict[str, Any] = {"run": run, "target": target}
        for table in analysis.tables(top):
            if table not in LARGE:
                digest[NAMES.get(table, table)] = _collected(analysis, table)
            analysis.database.write(table, unfinished / f"{NAMES.get(table, table)}.parquet")
        digest["cannot_tell"] = analysis.notes + _remarks(digest)
        (unfinished / DIGEST).write_text(json.dumps(digest, indent=1), "utf-8")
        return digest


def headline_alone(engine: DuckDB, run: str, target: float = 0.95) -> dict[str, Any]:
    """What an analysis says of `freshness`, and of audits, with the notes on it; nothing is written."""
    with _begun(engine, run, target) as analysis:
        tables = {NAMES.get(table, table): _collected(analysis, table) for table in analysis.headline()}
        return {"run": run, "target": target, **tables, "cannot_tell": analysis.notes + _remarks(tables)}


def _collected(analysis: Analysis, table: str) -> list[Row]:
    return analysis.database.rows(f"SELECT * FROM {table}")


@contextmanager
def _begun(engine: DuckDB, run: str, target: float, place: str | None = None) -> Iterator[Analysis]:
    """Of a run, for a place to write to or for the headline alone."""
    with closing(engine), closing(Database()) as database:
        if not 0 <= target <= 1:
            raise ConfigError(f"the target is {target:g}; right would be a freshness from 0 to 1")
        if place is not None:
            _check(place)
        try:
            yield Analysis(engine, database, run, target, place is None)
        except FAILURES + engine.failures as error:
            raise AnalysisError(f"{run} could not be analysed: {first_words(error)}") from error


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
def _unfinished(engine: DuckDB, place: str) -> Iterator[Path]:
    """Where to write, so that a reader sees a whole analysis or none; on a cluster's file system nearly so."""
    if "://" not in place:
        with whole_directory(Path(place)) as part:
            yield part
        return
    with tempfile.TemporaryDirectory(prefix="freshkeeper-") as made:
        yield Path(made)
        engine.deliver(Path(made), place)
