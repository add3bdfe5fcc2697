"""Simulations from Python: `simulate(...)` runs an experiment and returns its results as tables.

The engine, the run directory and the page are those of the command line.
"""

import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, dataclass, fields, is_dataclass
from html import escape
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyarrow import parquet

from freshkeeper.commands.experiments import Chosen, Live, run_experiment
from freshkeeper.commands.screen import TextTable
from freshkeeper.commands.trace import trace_of_files
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.policies.base import Policy
from freshkeeper.policies.registry import BUILTIN, as_text, split
from freshkeeper.simulator.experiment.baselines import read_baselines
from freshkeeper.simulator.experiment.experiment_config import load, resolve
from freshkeeper.simulator.experiment.replay import fit_to_trace
from freshkeeper.simulator.experiment.run_directory import read_about
from freshkeeper.simulator.experiment.summary import csv_cell, read_summary

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

PolicyLike: TypeAlias = str | Mapping[str, Any] | Policy | type[Policy]
SHOWN_ROWS, SHOWN_WIDTH = 40, 160
SHARED = ("case", "knowledge", "budget", "bank", "seeds")
LEFT_OUT = ("setting", "pooled", "stale_answers", "answers", "spent", "seconds", "over_budget")
SHORT_NAMES = {"ci95": "± 95 %", "requests_per_evaluation": "requests", "share_of_bound": "of bound"}
"""Columns of the summary that the picture of a simulation says once, leaves out, or shortens."""


@dataclass(frozen=True, eq=False, repr=False)
class ResultTable:
    """A tidy table of results: one row per observation, for pandas, polars, Arrow, or a loop over its rows."""

    arrow: pa.Table

    def to_arrow(self) -> pa.Table:
        """Return the table of pyarrow."""
        return self.arrow

    def to_pandas(self) -> "pd.DataFrame":
        """Return a data frame of pandas."""
        frame: pd.DataFrame = self.arrow.to_pandas()
        return frame

    def to_polars(self) -> "pl.DataFrame":
        """Return a data frame of polars."""
        import polars

        frame = polars.from_arrow(self.arrow)
        assert isinstance(frame, polars.DataFrame)
        return frame

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.arrow.column_names

    def __len__(self) -> int:
        return self.arrow.num_rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield rows as mappings; an unknown number is None."""
        return iter(self.arrow.to_pylist())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the table to whatever reads Arrow: polars, pandas, DuckDB."""
        return self.arrow.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        width = shutil.get_terminal_size((SHOWN_WIDTH, 24)).columns
        first = self.arrow.slice(0, 1).to_pylist()
        numeric = [isinstance(value, int | float) for row in first for value in row.values()]
        words = numeric.index(True) if True in numeric else len(numeric)
        return "\n".join([*TextTable("", self.columns, self._cells(), words=words).lines(width), *self._more()])

    def _repr_html_(self) -> str:
        rows = [f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in self.columns)}</tr>"]
        for cells in self._cells():
            rows.append(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in cells)}</tr>")
        return f"<table>{''.join(rows)}</table>{''.join(self._more())}"

    def _cells(self) -> list[list[str]]:
        shown = self.arrow.slice(0, SHOWN_ROWS).to_pylist()
        return [list(map(_cell_text, row.values())) for row in shown]

    def _more(self) -> list[str]:
        more = len(self) - SHOWN_ROWS
        if more <= 0:
            return []
        return [f"... and {more:,} more rows"]


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """The results of a simulation: tables, notes, and the run directory that holds them.

    >>> from freshkeeper import simulate
    >>> result = simulate("lru,plan", sweep={"budget": [1, 2]}, seeds=1, evaluations=10, bound="never", progress=False)
    >>> table = result.summary()
    >>> table.columns[:4], len(table), len(result.evaluations())
    (['setting', 'policy', 'case', 'knowledge'], 4, 40)
    >>> table.to_pandas().groupby("budget")["freshness"].max().size
    2
    """

    path: Path
    """the run directory"""
    notes: Sequence[str] = ()
    """how the data were read, why a bound is left out, whether a setting tells policies apart"""

    def summary(self) -> ResultTable:
        """Return one row per setting and policy: swept keys, mean freshness with its 95 % interval, requests."""
        return ResultTable(_table([row.as_cells() for row in read_summary(self.path / "summary.csv")]))

    def baselines(self) -> ResultTable:
        """Return caches without a budget on the same traces: two with TTLs, no cache, and fetch once."""
        return ResultTable(_table([vars(row) for row in read_baselines(self.path)]))

    def evaluations(self) -> ResultTable:
        """Return one row per evaluation, with a column for each swept key."""
        table = parquet.read_table(self.path / "evaluations.parquet")
        about = read_about(self.path)
        settings = about.settings if about else {}
        names = table["setting"].to_pylist()
        for key in dict.fromkeys(key for setting in settings.values() for key in setting.varied):
            if key not in table.column_names:
                by_name = {name: setting.varied[key] for name, setting in settings.items()}
                table = table.append_column(key, _column([by_name[name] for name in names]))
        return ResultTable(table)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the page of the run and return its path; default: report.html in the run directory."""
        from freshkeeper.simulator.report.page import write_report

        return write_report(self.path, Path(path) if path else None)

    def __repr__(self) -> str:
        same, table = self._picture()
        return "\n".join([same, repr(table), *self.notes, f"run directory: {self.path}"])

    def _repr_html_(self) -> str:
        same, table = self._picture()
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<p>{escape(same)}</p>{table._repr_html_()}{notes}"

    def _picture(self) -> tuple[str, ResultTable]:
        """Return what all rows of the summary share, in words, and the columns that people compare."""
        summary = self.summary()
        columns = summary.to_arrow().to_pydict()
        same = {name: columns[name][0] for name in SHARED if len(set(columns[name])) == 1}
        shown = {}
        for name, values in columns.items():
            known = any(value is not None for value in values)
            if known and name not in LEFT_OUT and name not in same:
                shown[SHORT_NAMES.get(name, name)] = _column(values)
        words = ", ".join(f"{name} {_cell_text(value)}" for name, value in same.items())
        return words, ResultTable(pa.table(shown))


def simulate(
    policies: PolicyLike | Sequence[PolicyLike] | None = None,
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    trace: str | Path | None = None,
    arrivals: str | Path | None = None,
    edges: str | Path | None = None,
    changes: str | Path | None = None,
    sweep: Mapping[str, object] | None = None,
    out: str | Path | None = None,
    resume: bool = True,
    jobs: int = 0,
    progress: bool = True,
    **settings: Any,
) -> Simulation:
    """Run policies against a drawn workload, a trace, or files of your own, and return the results.

    Parameters:
        policies: names (`"lru"`, `"plan(windows=2)"`, `"mine:Newest"`), mappings, classes or objects; default: those
            of the config
        config: a YAML file, a name of `freshkeeper config list`, or a mapping; default: the paper's workload
        trace: a directory with a trace
        arrivals, edges, changes: files in place of a trace, with their columns behind a colon:
            `"clicks.csv:at,product"`, `"prices.csv:at,product,price"`; without edges each key is its own entry
        sweep: the grid: `{"budget": [5, 10], "workload.edges": "250..4000 times 2"}`
        out: the run directory; default: a temporary one, which lasts as long as the result
        resume: go on in a run directory that is there: only missing seeds, settings and policies are run
        jobs: the number of processes; 0: as many as are useful. Policies of a script or a notebook run in this one
        progress: show a bar, or a line every ten seconds where there is neither a terminal nor a notebook
        settings: further keys of an experiment (`freshkeeper config init`), as `budget=5, seeds=10,
            knowledge="learned", workload={"edges": 500}`

    Raises ConfigError for settings that cannot be, InputError for files that cannot be read.

    >>> from freshkeeper import simulate
    >>> result = simulate("lru,plan", budget=3, seeds=2, evaluations=20, bound="never", progress=False)
    >>> [row["policy"] for row in result.summary()]
    ['lru', 'plan']
    """
    keys = dict(settings)
    if policies is not None:
        chosen: Sequence[PolicyLike] = split(policies) if isinstance(policies, str) else _listed(policies)
        keys["policies"] = [_policy_keys(policy) for policy in chosen]
    if sweep is not None:
        keys["sweep"] = dict(sweep)
    temporary = mkdtemp(prefix="freshkeeper-") if out is None else ""
    place = Path(temporary) / "run" if out is None else Path(out)
    notes: list[str] = []
    if arrivals is not None or edges is not None or changes is not None:
        if trace is not None or arrivals is None:
            raise ConfigError("give a trace, or arrivals with changes (and edges, where a key needs several entries)")
        trace = place.with_name(f"{place.name}-trace")
        notes += trace_of_files(trace, str(arrivals), str(edges or ""), str(changes or ""))
    if trace is not None:
        keys["trace"] = str(trace)
    experiment = load(Path(config), keys) if isinstance(config, str | Path) else resolve(config or {}, keys)
    experiment, fitted = fit_to_trace(experiment)
    if any(policy.name.startswith("__main__:") for policy in experiment.policies):
        jobs = 1  # another process does not have what a notebook or a script defines
    live = Live(experiment)
    with live.bar.running() if progress else nullcontext():
        run_experiment(experiment, place, Chosen(jobs=jobs, resume=resume, report=False), live)
    result = Simulation(place, [*notes, *fitted, *live.notes(place)])
    if temporary:
        weakref.finalize(result, shutil.rmtree, temporary, ignore_errors=True)
    return result


def _listed(policies: PolicyLike | Sequence[PolicyLike]) -> Sequence[PolicyLike]:
    return policies if isinstance(policies, list | tuple) else [policies]  # type: ignore[list-item]


def _policy_keys(policy: PolicyLike) -> str | dict[str, Any]:
    """Return a policy as a config has it: a class or an object by its module, with settings that are not defaults."""
    if isinstance(policy, str):
        return policy
    if isinstance(policy, Mapping):
        return dict(policy)
    kind = policy if isinstance(policy, type) else type(policy)
    if "<locals>" in kind.__qualname__:
        raise ConfigError(
            f"the policy {kind.__name__} is defined inside a function; define it at the top of a module, a script or a "
            "notebook, where processes find it by its name"
        )
    settings: dict[str, Any] = {}
    if policy is not kind and is_dataclass(policy):
        for one in fields(policy):
            value, default = getattr(policy, one.name, None), one.default
            if one.default_factory is not MISSING:
                default = one.default_factory()
            if one.init and value != default:
                settings[one.name] = value
    path = f"{kind.__module__}:{kind.__qualname__}"
    for name, known in BUILTIN.items():
        if known == path:
            return {"name": name, **settings}
    short = getattr(kind, "name", "") or kind.__name__
    return {"name": path, "label": as_text({"name": short, **settings}), **settings}


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return pa.table({name: _column(values) for name, values in columns.items()})


def _column(values: list[Any]) -> pa.Array:
    """Return values as a column; those of several types, such as 4000 and 4s, as text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, TypeError):
        return pa.array([str(csv_cell(value)) for value in values])


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
