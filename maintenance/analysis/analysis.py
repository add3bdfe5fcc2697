"""A whole analysis: every table as Parquet, one JSON with all that is small, and in words what cannot be told."""

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa

from freshkeeper.maintenance.analysis.analysis_tables import (
    DIGEST,
    FORMAT,
    Analysis,
    Row,
    remarks_on,
)
from freshkeeper.maintenance.analysis.journal_tables import Cuts, Database, Tables, located, opened, read
from freshkeeper.maintenance.analysis.judging import DuckDB, Parts, added_up, judge
from freshkeeper.maintenance.analysis.questions import (
    EVALUATIONS,
    HEADLINE,
    LARGE,
    LAST_ALONE,
    OF,
    ON_THE_WAY,
    QUESTIONS,
    SEEDS_AND_DATES,
)
from freshkeeper.maintenance.analysis.spark_session import first_words
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.base.files import atomic_directory
from freshkeeper.maintenance.base.stats import student_by_size

HEADLINE_TABLES = frozenset(HEADLINE | {"budget"})
"""What a reader needs who compares freshness and cost."""


class AnalysisError(InputError):
    """A run that cannot be analysed at all."""


class Judging(Enum):
    """The extent to which answers are judged by the truth: every table, the freshness alone, or not at all."""

    EVERY_TABLE = "every table"
    HEADLINE = "headline"
    RECORDED = "recorded"
    """Freshness is what evaluations and audits recorded; answers are not read."""


@dataclass(frozen=True, kw_only=True)
class AnalysisScope:
    """The scope of an analysis."""

    target: float = 0.95
    top: int = 20
    """how many of the stalest entries are named"""
    judging: Judging = Judging.EVERY_TABLE
    names: Set[str] = frozenset(QUESTIONS)
    """the tables that are wanted"""
    cuts: Cuts | None = None
    """the parts and rows of the journal that are read; None: all"""
    last: int | None = None
    """only this many evaluations count, the last ones of each run"""


def analyse(
    engine: DuckDB, run: str, out: str | None = None, target: float = 0.95, top: int = 20, only: Cuts | None = None
) -> dict[str, Any]:
    """Analyse a run; write tables and analysis.json into `out` (default: analysis in the run), return the latter.

    The engine is closed when it is done. `only` says which parts and rows are meant; without it it is all.
    """
    place = located(out or f"{run}/analysis")
    scope = AnalysisScope(target=target, top=top, cuts=only)
    with _begun(engine, run, target) as database, _unfinished(engine, place) as unfinished:
        found = _tables(engine, database, run, scope)
        for name in found.tables:
            file = unfinished / f"{name}.parquet" / "part-0.parquet"  # as Spark and journals name theirs
            file.parent.mkdir()
            database.table(name).write_parquet(str(file), compression="zstd")
        digest = _digest(run, target, found)
        (unfinished / DIGEST).write_text(json.dumps(digest, indent=1), "utf-8")
        return digest


def headline_alone(engine: DuckDB, run: str, target: float = 0.95) -> dict[str, Any]:
    """Return what an analysis says of freshness, by seed as well, of audits and of what was expected; write nothing."""
    return _digest(
        run, target, analysed(engine, run, AnalysisScope(target=target, judging=Judging.HEADLINE, names=HEADLINE))
    )


def analysed(engine: DuckDB, run: str, scope: AnalysisScope) -> Analysis:
    """Analyse a run in memory, large tables included but for one row per evaluation; the engine is closed then."""
    with _begun(engine, run, scope.target) as database:
        found = _tables(engine, database, run, scope)
        if "timeline" not in found.tables:
            return found
        lines = database.table("timeline").to_arrow_table().to_pylist()
        return Analysis({**found.tables, "timeline": lines}, found.missing, found.remarks)


def _digest(run: str, target: float, found: Analysis) -> dict[str, Any]:
    small = {name: rows for name, rows in found.tables.items() if name not in LARGE}
    return {"run": run, "format": FORMAT, "target": target, **small, "cannot_tell": [*found.missing, *found.remarks]}


def _tables(engine: DuckDB, database: Database, run: str, scope: AnalysisScope) -> Analysis:
    """Make the tables in the database; the large ones are left there and empty here."""
    source = _judged(engine, database, run, scope)
    there = set(source.there)
    if source.judged and scope.judging is Judging.EVERY_TABLE:
        there.add("judged")
    unknown = {name for kind, names in OF.items() if kind not in there for name in names}
    wanted = [name for name in QUESTIONS if name not in unknown and name in scope.names]
    _set_variables(database, source, scope)
    tables: dict[str, list[Row]] = {}
    for name in wanted:
        order = "" if name in ON_THE_WAY else "ORDER BY ALL"
        database.execute(f"CREATE TABLE {name} AS FROM ({QUESTIONS[name]}) {order}")
        if name not in ON_THE_WAY:
            tables[name] = [] if name in LARGE else database.table(name).to_arrow_table().to_pylist()
    missing = [*source.notes, *_gaps(database, source, tables)]
    return Analysis(tables, missing, list(remarks_on(tables)))


def _set_variables(database: Database, source: Tables, scope: AnalysisScope) -> None:
    ((seeds, dated),) = database.sql(SEEDS_AND_DATES).fetchall()
    values = {
        "target": scope.target,
        "top": scope.top,
        "changes": "changes" in source.there and scope.judging is Judging.EVERY_TABLE,
        "dates": bool(dated),
        "student": student_by_size(max(seeds, 1)),
    }
    for variable, value in values.items():
        database.execute(f"SET VARIABLE {variable} = $1", [value])


def _judged(engine: DuckDB, database: Database, run: str, scope: AnalysisScope) -> Tables:
    """Prepare the tables of a run as questions need them."""
    place = located(run)
    found = read(database, engine.near(place), scope.cuts)
    if not found.there & {"evaluations", "answers"}:
        said = "cannot be analysed: it has neither evaluations.parquet nor answers.parquet"
        raise AnalysisError(f"{run} {said}; nothing was answered there")
    if "evaluations" not in found.there and not found.judged:
        raise AnalysisError("there are answers, but neither evaluations nor changes: nothing can be told of them")
    if scope.last is not None:
        database.execute(f"CREATE TABLE last_evaluations AS {LAST_ALONE.format(last=scope.last)}")
        database.execute("DROP VIEW own_evaluations; ALTER TABLE last_evaluations RENAME TO own_evaluations")
    judged = found.judged and scope.judging is not Judging.RECORDED
    headline = scope.judging is not Judging.EVERY_TABLE
    results: Iterable[Parts] = ()
    if judged:
        results = engine.judged(place, judge(database, found, headline))
    added_up(database, results)
    if "evaluations" not in found.there:
        database.sql(EVALUATIONS).create_view("own_evaluations")
    database.sql("FROM own_changes").create_view("changes")
    budgets = pa.array([about.budget for about in found.settings.values()], pa.float64())
    gammas = pa.table({"setting": pa.array(found.settings, pa.string()), "gamma": budgets})
    database.from_arrow(gammas).create("gammas")
    return found


def _gaps(database: Database, found: Tables, tables: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Yield what turned out not to be known."""
    if tables.get("budget") and all(about.budget is None for about in found.settings.values()):
        yield "There is no run.json that says what was paid in, so the use of the budget cannot be told."
    if "by_change_rate" in tables:
        counts = "SELECT count(*), count(*) FILTER (WHERE changes = 0) FROM changed"
        ((entries, without),) = database.sql(counts).fetchall()
        if without:
            said = f"Of {entries} entries {without} have no change in changes.parquet"
            yield f"{said}; their copies count as fresh."


@contextmanager
def _begun(engine: DuckDB, run: str, target: float) -> Iterator[Database]:
    """Open a database, and say whatever goes wrong with it in one sentence."""
    with closing(engine), opened() as database:
        if not 0 <= target <= 1:
            raise ConfigError(f"the target is {target:g}; right would be a freshness from 0 to 1")
        try:
            yield database
        except engine.failures as error:
            raise AnalysisError(f"{run} could not be analysed: {first_words(error)}") from error


@contextmanager
def _unfinished(engine: DuckDB, place: str) -> Iterator[Path]:
    """Yield the directory to write, so that a reader sees a whole analysis or none; on a cluster nearly so.

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
    with atomic_directory(path) as part:
        yield part
