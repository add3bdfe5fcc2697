"""A whole analysis: every table as Parquet, one JSON with all that is small, and in words what cannot be told."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.files import whole_directory
from freshkeeper.maintenance.pipeline.analysis import (
    audit_analysis,
    entries,
    headline,
    journal_tables,
    over_evaluations,
    refresh_analysis,
)
from freshkeeper.maintenance.pipeline.analysis.engine import Engine, Row, located
from freshkeeper.maintenance.pipeline.analysis.journal_tables import AnalysisError, Tables
from freshkeeper.maintenance.pipeline.spark_session import first_words
from freshkeeper.policies.errors import ConfigError

DIGEST = "analysis.json"
PER_EVALUATION = "seed, k, t_ms, warmup, results, fresh, freshness, basis, reported, expected_fresh"
CLOSE = 1e-9
LARGE = ("over_time", "each_evaluation")
"""Tables that grow with the run: Parquet alone holds them."""
NAMES = {"each_evaluation": "evaluations", "audit_shares": "audits"}
"""What tables are called on disk whose names the journal's have."""


class Analysis:
    """What can be told of a run, on an engine: named tables, computed when they are written or collected."""

    def __init__(self, engine: Engine, found: Tables, target: float = 0.95, top: int = 20) -> None:
        """Judge every answer; `target` is a freshness to be met, `top` how many stale entries are named."""
        self.engine, self.found, self.top = engine, found, top
        self.notes = list(found.notes)
        evaluations = "evaluations" in found.there
        if not evaluations and not found.judged:
            raise AnalysisError("there are answers, but neither evaluations nor changes: nothing can be told of them")
        engine.keep("truths", self._judge() if found.judged else _no_truth())
        engine.keep("evaluated", headline.evaluated(evaluations))
        engine.keep("told_seeds", headline.by_seed(target))
        if "audits" in found.there:
            engine.keep("audited", audit_analysis.AUDITED)
        seeds = audit_analysis.STAND_IN if "audits" in found.there else "SELECT * FROM told_seeds"
        engine.keep("seeds", seeds, f"{headline.SERIES}, seed")

    def tables(self) -> Iterator[str]:
        """Every table that there can be, by name."""
        yield from self._evaluations()
        if self.found.judged:
            self.engine.keep("served", entries.SERVED, large=True)
            yield from self._entries()
        if "refreshes" in self.found.there:
            yield from self._refreshes()

    def _kept(self, name: str, query: str, order: str) -> str:
        self.engine.keep(name, query, order)
        return name

    def _evaluations(self) -> Iterator[str]:
        series = headline.SERIES
        (row,) = self.engine.rows("SELECT count(DISTINCT seed) AS most FROM seeds")
        yield self._kept("freshness", headline.headline(row["most"]), series)
        yield "seeds"
        self.engine.view("each_evaluation", f"SELECT {series}, {PER_EVALUATION} FROM evaluated")
        yield "each_evaluation"
        self.engine.view("over_time", over_evaluations.OVER_TIME)
        yield "over_time"
        audits = "audits" in self.found.there
        both = f" UNION ALL SELECT * FROM ({audit_analysis.CALIBRATION}) AS by_audits" if audits else ""
        calibration = f"SELECT * FROM ({over_evaluations.CALIBRATION}) AS by_truth{both}"
        yield self._kept("calibration", calibration, f"{series}, basis, tenth")
        if audits:
            audit_analysis.shares(self.engine)
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
        self.engine.given("gammas", {"setting": "string", "gamma": "double"}, found)

    def _judge(self) -> str:
        """Answers judged, together by copy, and as the headline counts them: aggregates with their SN.

        What every table needs of the answers is read once; they themselves are read again for aggregates and degrees.
        """
        engine = self.engine
        engine.keep("by_copy", entries.BY_COPY, large=True)
        engine.keep("copies", headline.copies("by_copy"))
        (row,) = engine.rows("SELECT count(*) AS number FROM copies")
        engine.view("judged", headline.judged("by_copy", row["number"]))
        if not self.found.aggregates:
            return headline.counted("judged")
        engine.view("aggregates", """SELECT * FROM answers WHERE "case" = 'aggregate'""")
        engine.view("judged_aggregates", headline.judged("aggregates", row["number"]))
        engine.view("judged_edges", """SELECT * FROM judged WHERE "case" != 'aggregate'""")
        edges, whole = headline.counted("judged_edges"), headline.counted_whole("judged_aggregates")
        return f"SELECT * FROM ({edges}) AS edges UNION ALL SELECT * FROM ({whole}) AS whole"

    def _entries(self) -> Iterator[str]:
        engine, order = self.engine, "setting, policy, decile"
        engine.keep("by_sr", entries.BY_SR)
        engine.keep("degrees", entries.DEGREES)
        engine.keep("changed", entries.CHANGED)
        (row,) = engine.rows(entries.UNCHANGED)
        if row["without"]:
            said = f"Of {row['entries']} entries {row['without']} have no change in changes.parquet"
            self.notes.append(f"{said}; their copies count as fresh.")
        yield self._kept("by_degree", entries.by_decile("degrees", "degree"), order)
        yield self._kept("by_change_rate", entries.by_decile("changed", "changes"), order)
        yield self._kept("top_stale", entries.top_stale(self.top), "setting, policy, rank")
        engine.keep("staleness_ms", entries.STALENESS)
        yield self._kept("staleness", entries.OCTAVES, "setting, policy, what, from_ms")
        yield self._kept("staleness_quantiles", entries.STALENESS_QUANTILES, "setting, policy, what")

    def _refreshes(self) -> Iterator[str]:
        self.engine.keep("counting", refresh_analysis.COUNTING)
        wasted = refresh_analysis.wasted(self.found.judged, "changes" in self.found.there)
        yield self._kept("wasted", wasted, "setting, policy")
        if self.found.judged:
            yield self._kept("missed", refresh_analysis.MISSED, "setting, policy")


def analyse(engine: Engine, run: str, out: str | None = None, target: float = 0.95, top: int = 20) -> dict[str, Any]:
    """Analyse a run; write tables and analysis.json into `out` (default: analysis in the run), return the latter.

    The engine is closed when it is done.
    """
    with closing(engine):
        if not 0 <= target <= 1:
            raise ConfigError(f"the target is {target:g}; right would be a freshness from 0 to 1")
        place = located(out or f"{run}/analysis")
        _check(place)
        try:
            analysis = Analysis(engine, journal_tables.read(engine, run), target, top)
            with _unfinished(place) as unfinished:
                return _written(analysis, {"run": run, "target": target}, unfinished)
        except engine.failures as error:
            raise AnalysisError(f"{run} could not be analysed: {first_words(error)}") from error


def _written(analysis: Analysis, digest: dict[str, Any], place: str) -> dict[str, Any]:
    """Every table written, and what is small collected."""
    for table in analysis.tables():
        name = NAMES.get(table, table)
        if table not in LARGE:
            digest[name] = analysis.engine.rows(f"SELECT * FROM {table}")
        analysis.engine.write(table, f"{place}/{name}.parquet")
    digest["cannot_tell"] = analysis.notes + _remarks(digest)
    analysis.engine.write_text(f"{place}/{DIGEST}", json.dumps(digest, indent=1))
    return digest


def _no_truth() -> str:
    """No evaluation of which the truth is known."""
    words = ("setting", "policy", "case")
    columns = [f'cast(NULL AS string) AS "{name}"' for name in words]
    columns += [f"cast(NULL AS bigint) AS {name}" for name in ("seed", "moment", "t_ms")]
    columns += [f"cast(NULL AS double) AS {name}" for name in ("held", "true_fresh")]
    return f"SELECT {', '.join(columns)} WHERE FALSE"


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
def _unfinished(place: str) -> Iterator[str]:
    """Where to write, so that a reader sees a whole analysis or none; on a cluster's file system in place."""
    if "://" in place:
        yield place
        return
    with whole_directory(Path(place)) as part:
        yield str(part)
