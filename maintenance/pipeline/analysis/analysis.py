"""A whole analysis: every table as Parquet, one JSON with all that is small, and in words what cannot be told."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from freshkeeper.maintenance.files import whole_directory
from freshkeeper.maintenance.pipeline.analysis import journal_tables
from freshkeeper.maintenance.pipeline.analysis.engine_choice import DuckDB
from freshkeeper.maintenance.pipeline.analysis.journal_tables import AnalysisError, Database, Row, Tables, located
from freshkeeper.maintenance.pipeline.analysis.judging import added_up, judge
from freshkeeper.maintenance.pipeline.analysis.questions import EVALUATIONS, HEADLINE, LARGE, OF, ON_THE_WAY, QUESTIONS
from freshkeeper.maintenance.pipeline.spark_session import first_words
from freshkeeper.policies.errors import ConfigError

DIGEST = "analysis.json"
CLOSE = 1e-9
FAILURES: tuple[type[Exception], ...] = (duckdb.Error, pa.ArrowException)


def analyse(engine: DuckDB, run: str, out: str | None = None, target: float = 0.95, top: int = 20) -> dict[str, Any]:
    """Analyse a run; write tables and analysis.json into `out` (default: analysis in the run), return the latter.

    The engine is closed when it is done.
    """
    place = located(out or f"{run}/analysis")
    with _begun(engine, run, target) as database, _unfinished(engine, place) as unfinished:
        digest, names = _answers_to_all(engine, database, run, target, top)
        for name in names:
            database.write(f"told_{name}", unfinished / f"{name}.parquet")
        (unfinished / DIGEST).write_text(json.dumps(digest, indent=1), "utf-8")
        return digest


def headline_alone(engine: DuckDB, run: str, target: float = 0.95) -> dict[str, Any]:
    """What an analysis says of freshness, by seed as well, of audits and of what was expected; nothing is written."""
    with _begun(engine, run, target) as database:
        return _answers_to_all(engine, database, run, target)[0]


def _answers_to_all(
    engine: DuckDB, database: Database, run: str, target: float, top: int | None = None
) -> tuple[dict[str, Any], list[str]]:
    """All that is small, and the names of all tables; without `top`, those of the headline."""
    found = _judged(engine, database, run, top is None)
    there = found.there | ({"judged"} if found.judged else set())
    untold = {name for what, names in OF.items() if what not in there for name in names}
    asked = [name for name in QUESTIONS if name not in untold and (name in HEADLINE or top is not None)]
    for variable, value in {"target": target, "top": top or 0, "changes": "changes" in there}.items():
        database.execute(f"SET VARIABLE {variable} = $1", [value])
    digest: dict[str, Any] = {"run": run, "target": target}
    for name in asked:
        if name in ON_THE_WAY:
            database.keep(name, QUESTIONS[name])
            continue
        database.keep(f"told_{name}", f"FROM ({QUESTIONS[name]}) ORDER BY ALL")
        if name not in LARGE:
            digest[name] = database.rows(f"FROM told_{name}")
    digest["cannot_tell"] = [*found.notes, *_gaps(database, found, digest), *_remarks(digest)]
    return digest, [name for name in asked if name not in ON_THE_WAY]


def _judged(engine: DuckDB, database: Database, run: str, headline: bool) -> Tables:
    """The tables of a run as questions need them."""
    found = journal_tables.read(engine, database, run)
    if "evaluations" not in found.there and not found.judged:
        raise AnalysisError("there are answers, but neither evaluations nor changes: nothing can be told of them")
    judged = engine.judged(f"{located(run)}/answers.parquet", judge(database, found, headline)) if found.judged else ()
    added_up(database, judged, headline)
    if "evaluations" not in found.there:
        database.view("evaluations", EVALUATIONS)
    database.view("changes", journal_tables.changes(found))
    gammas = [{"setting": name, "gamma": about.budget} for name, about in found.settings.items()]
    database.take("gammas", pa.Table.from_pylist(gammas, pa.schema({"setting": pa.string(), "gamma": pa.float64()})))
    (row,) = database.rows("SELECT count(DISTINCT seed) AS most FROM evaluations")
    seeds = np.arange(2, max(2, row["most"]) + 1)
    database.take("student", pa.table({"seeds": seeds, "quantile": stdtrit(seeds - 1, 0.975)}))
    return found


def _gaps(database: Database, found: Tables, digest: Mapping[str, Any]) -> Iterator[str]:
    """What turned out not to be known."""
    if "sn" not in found.answers and database.rows("SELECT 1 FROM truths WHERE \"case\" = 'aggregate' LIMIT 1"):
        yield "Aggregates without their lookup key are counted input by input."
    if "budget" in digest and all(about.budget is None for about in found.settings.values()):
        yield "There is no run.json that says what was paid in, so the use of the budget cannot be told."
    if "by_change_rate" in digest:
        (row,) = database.rows(
            "SELECT count(*) AS entries, count(*) FILTER (WHERE changes = 0) AS without FROM changed"
        )
        if row["without"]:
            said = f"Of {row['entries']} entries {row['without']} have no change in changes.parquet"
            yield f"{said}; their copies count as fresh."


@contextmanager
def _begun(engine: DuckDB, run: str, target: float) -> Iterator[Database]:
    """A database, and one sentence for whatever goes wrong with it."""
    with closing(engine), closing(Database()) as database:
        if not 0 <= target <= 1:
            raise ConfigError(f"the target is {target:g}; right would be a freshness from 0 to 1")
        try:
            yield database
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


@contextmanager
def _unfinished(engine: DuckDB, place: str) -> Iterator[Path]:
    """Where to write, so that a reader sees a whole analysis or none; on a cluster's file system nearly so.

    An analysis replaces an earlier one and nothing else.
    """
    if "://" in place:
        with tempfile.TemporaryDirectory(prefix="freshkeeper-") as made:
            yield Path(made)
            engine.deliver(Path(made), place)
        return
    path = Path(place)
    if path.exists() and not (path / DIGEST).exists() and not (path.is_dir() and not any(path.iterdir())):
        raise ConfigError(f"{place} holds something that is no analysis; name another directory (--out)")
    with whole_directory(path) as part:
        yield part
