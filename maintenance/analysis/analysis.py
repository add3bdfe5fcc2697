"""A whole analysis: every table as Parquet, one JSON with all that is small, and in words what cannot be told."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from freshkeeper.maintenance.analysis.engine_choice import DuckDB
from freshkeeper.maintenance.analysis.journal_tables import Cuts, Database, Tables, located, opened, read
from freshkeeper.maintenance.analysis.judging import added_up, judge
from freshkeeper.maintenance.analysis.questions import EVALUATIONS, HEADLINE, LARGE, OF, ON_THE_WAY, QUESTIONS
from freshkeeper.maintenance.analysis.spark_session import first_words
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.base.files import whole_directory

DIGEST = "analysis.json"
CLOSE = 1e-9


class AnalysisError(InputError):
    """A run that cannot be analysed at all."""


def analyse(
    engine: DuckDB, run: str, out: str | None = None, target: float = 0.95, top: int = 20, only: Cuts | None = None
) -> dict[str, Any]:
    """Analyse a run; write tables and analysis.json into `out` (default: analysis in the run), return the latter.

    The engine is closed when it is done. `only` says which parts and rows are meant; without it it is all.
    """
    place = located(out or f"{run}/analysis")
    with _begun(engine, run, target) as database, _unfinished(engine, place) as unfinished:
        digest, names = _answers_to_all(engine, database, run, only, target, top)
        for name in names:
            file = unfinished / f"{name}.parquet" / "part-0.parquet"  # as Spark and journals name theirs
            file.parent.mkdir()
            database.table(name).write_parquet(str(file), compression="zstd")
        (unfinished / DIGEST).write_text(json.dumps(digest, indent=1), "utf-8")
        return digest


def headline_alone(engine: DuckDB, run: str, target: float = 0.95) -> dict[str, Any]:
    """What an analysis says of freshness, by seed as well, of audits and of what was expected; nothing is written."""
    with _begun(engine, run, target) as database:
        return _answers_to_all(engine, database, run, None, target)[0]


def _answers_to_all(
    engine: DuckDB, database: Database, run: str, cuts: Cuts | None, target: float, top: int | None = None
) -> tuple[dict[str, Any], list[str]]:
    """All that is small, and the names of all tables; without `top`, those of the headline."""
    found = _judged(engine, database, run, cuts, headline=top is None)
    there = found.there | ({"judged"} if found.judged else set())
    untold = {name for what, names in OF.items() if what not in there for name in names}
    asked = [name for name in QUESTIONS if name not in untold and (name in HEADLINE or top is not None)]
    for variable, value in {"target": target, "top": top or 0, "changes": "changes" in there}.items():
        database.execute(f"SET VARIABLE {variable} = $1", [value])
    digest: dict[str, Any] = {"run": run, "target": target}
    for name in asked:
        order = "" if name in ON_THE_WAY else "ORDER BY ALL"
        database.execute(f"CREATE TABLE {name} AS FROM ({QUESTIONS[name]}) {order}")
        if name not in ON_THE_WAY | LARGE:
            digest[name] = database.table(name).to_arrow_table().to_pylist()
    digest["cannot_tell"] = [*found.notes, *_gaps(database, found, digest), *_remarks(digest)]
    return digest, [name for name in asked if name not in ON_THE_WAY]


def _judged(engine: DuckDB, database: Database, run: str, cuts: Cuts | None, headline: bool) -> Tables:
    """The tables of a run as questions need them."""
    place = located(run)
    found = read(database, engine.near(place), cuts)
    if not found.there & {"evaluations", "answers"}:
        raise AnalysisError(f"{run} cannot be analysed: it has neither evaluations.parquet nor answers.parquet")
    if "evaluations" not in found.there and not found.judged:
        raise AnalysisError("there are answers, but neither evaluations nor changes: nothing can be told of them")
    added_up(database, engine.judged(place, judge(database, found, headline)) if found.judged else ())
    if "evaluations" not in found.there:
        database.sql(EVALUATIONS).create_view("own_evaluations")
    database.sql("FROM own_changes").create_view("changes")
    budgets = pa.array([about.budget for about in found.settings.values()], pa.float64())
    gammas = pa.table({"setting": pa.array(found.settings, pa.string()), "gamma": budgets})
    database.from_arrow(gammas).create("gammas")
    ((most,),) = database.sql("SELECT count(DISTINCT seed) FROM own_evaluations").fetchall()
    seeds = np.arange(2, most + 2)
    database.from_arrow(pa.table({"seeds": seeds, "quantile": stdtrit(seeds - 1, 0.975)})).create("student")
    return found


def _gaps(database: Database, found: Tables, digest: Mapping[str, Any]) -> Iterator[str]:
    """What turned out not to be known."""
    if "budget" in digest and all(about.budget is None for about in found.settings.values()):
        yield "There is no run.json that says what was paid in, so the use of the budget cannot be told."
    if "by_change_rate" in digest:
        counts = "SELECT count(*), count(*) FILTER (WHERE changes = 0) FROM changed"
        ((entries, without),) = database.sql(counts).fetchall()
        if without:
            said = f"Of {entries} entries {without} have no change in changes.parquet"
            yield f"{said}; their copies count as fresh."


@contextmanager
def _begun(engine: DuckDB, run: str, target: float) -> Iterator[Database]:
    """A database, and one sentence for whatever goes wrong with it."""
    with closing(engine), opened() as database:
        if not 0 <= target <= 1:
            raise ConfigError(f"the target is {target:g}; right would be a freshness from 0 to 1")
        try:
            yield database
        except engine.failures as error:
            raise AnalysisError(f"{run} could not be analysed: {first_words(error)}") from error


def _remarks(digest: dict[str, Any]) -> list[str]:
    """What a reader of the headline has to know."""
    rows: list[dict[str, Any]] = digest["freshness"]
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


def _series(row: Mapping[str, object]) -> tuple[object, ...]:
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
