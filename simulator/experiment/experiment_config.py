"""The config of an experiment: one validated model behind the YAML files in configs/ and the options of `simulate`.

Every key has a default, 002's own where 002 says one. A list where one value is expected means a grid; `sweep` does the
same for any key, dotted (`workload.edges`). Unknown keys are errors that suggest the near match.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.durations import as_ms
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.reference import option
from freshkeeper.maintenance.base.reference import reference as written
from freshkeeper.maintenance.base.shipped_configs import file_or_config
from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.base.yaml_file import read_yaml
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.journal.run_json import flat
from freshkeeper.policies.base import Case, Knowledge, Policy
from freshkeeper.policies.registry import make, parse, split
from freshkeeper.simulator.trace.workload import Workload
from freshkeeper.simulator.world.world import RemoteSettings


def _listed(value: object) -> object:
    """Split a grid of several values with commas."""
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, str):
        return value.split(",")
    return [value]


Duration = Annotated[int, BeforeValidator(as_ms), Field(ge=1)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Grid = BeforeValidator(_listed)
GRID_KEYS = ("case", "knowledge", "budget", "bank")
NOT_SWEPT = ("title", "seeds", "sweep", "spark", "target", "baselines")
"""Keys with one value for the whole experiment."""
MOST_SEEDS = 100_000


class PolicySettings(BaseModel):
    """A policy by name, with its settings as further keys; `label` is its name in tables."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str = Field(description="a registered policy, or module:Class")
    label: str = Field(default="", description="what tables and plots call it; empty: name and settings")

    @property
    def settings(self) -> dict[str, Any]:
        """The policy's own keys."""
        return dict(self.model_extra or {})

    @property
    def title(self) -> str:
        """The label, or one made of name and settings."""
        if self.label:
            return self.label
        written = ",".join(f"{key}={_word(value)}" for key, value in sorted(self.settings.items()))
        return f"{self.name}({written})" if written else self.name

    def make(self) -> Policy:
        """Make a new policy, for one run."""
        return make(self.name, self.settings)


def _policies(value: object) -> object:
    items = value
    if isinstance(value, str):
        items = split(value)
    if not isinstance(items, list | tuple):
        return items
    return [_policy(item) if isinstance(item, str | dict) else item for item in items]


def _policy(written: str | dict[str, Any]) -> dict[str, Any]:
    """Return a policy as a mapping; the mistakes of a mapping are found by its model."""
    if isinstance(written, dict) and not isinstance(written.get("name"), str):
        return written
    try:
        name, settings = parse(written)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return {"name": name, **settings}


class Experiment(BaseModel):
    """An experiment: policies, workload or trace, settings and seeds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = Field(default="", description="the title of the report")
    workload: Workload = Field(default=Workload(), description="the synthetic trace; every seed draws its own")
    trace: Path | None = Field(default=None, description="a directory with a recorded trace, instead of a workload")
    window: Duration = Field(default=4000, description="range ω, as 4s, PT4S or milliseconds")
    step: Duration = Field(default=1000, description="step β of the window")
    closure: Closure = Field(default=Closure.LEFT_OPEN, description="which end of the window is open")
    evaluations: int | None = Field(
        default=None,
        ge=1,
        description="the number of evaluations; default: 50, the workload's duration_ms if given, or all of a trace",
    )
    start: Literal["warm", "cold"] = Field(
        default="warm", description="warm: the view is complete and fresh at t0; cold: it is empty"
    )
    warm_up: float = Field(
        default=0.1, ge=0, lt=1, description="the share of evaluations at the beginning that do not count"
    )
    case: Annotated[list[Case], Grid] = Field(min_length=1, default=[Case.BGP], description="bgp, aggregate, or both")
    knowledge: Annotated[list[Knowledge], Grid] = Field(
        default=[Knowledge.EXACT],
        min_length=1,
        description="exact, published, rates (the true mean rates alone), learned, or several",
    )
    budget: Annotated[list[Amount], Grid] = Field(
        default=[10.0],
        min_length=1,
        description="γ, cost units per evaluation",
        json_schema_extra=option("budget", "5,10"),
    )
    bank: Annotated[list[Amount | Literal["window"]], Grid] = Field(
        default=[0.0],
        min_length=1,
        description="capacity of the bank; window: γ·ω/β",
        json_schema_extra=option("bank", "N"),
    )
    policies: Annotated[list[PolicySettings], BeforeValidator(_policies)] = Field(
        default=[PolicySettings(name=name) for name in ("random", "lru", "sbm", "ibm")],
        min_length=1,
        description="the policies: names, or names with settings: fba(literal=true), {name: fba, literal: true}",
        json_schema_extra=option("policy", "A,B"),
    )
    seeds: int | list[Seed] = Field(default=5, description="the number of seeds, counted from 0, or a list of seeds")
    remote: RemoteSettings = Field(default=RemoteSettings(), description="latency, limits and faults of the source")
    bound: Literal["auto", "always", "never"] = Field(
        default="auto", description="the clairvoyant bound; auto: if it takes a few seconds at most"
    )
    baselines: bool = Field(
        default=True,
        description="caches without a budget as baselines: TTLs with the requests γ pays for, no cache, fetch once",
    )
    answers: bool = Field(default=False, description="write every answer, for the analysis; needs much space")
    sweep: dict[str, list[Any]] = Field(default={}, description="keys to vary, each with its values")
    target: float | None = Field(
        default=None, gt=0, lt=1, description="the target freshness for which the report names a budget"
    )
    hold: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="the freshness that a controller keeps: it sets the cost of each evaluation from audits, up to the "
        "budget; default: every evaluation may cost the budget",
    )
    audit: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0, description="the share of the budget that checks answers; with hold 0.1 unless said otherwise"
    )
    spark: dict[str, Any] = Field(
        default={}, description="settings of Spark for --on spark, without the prefix spark.; also master"
    )

    @model_validator(mode="after")
    def _can_run(self) -> Self:
        titles = [policy.title for policy in self.policies]
        for title in titles:
            if titles.count(title) > 1:
                raise ValueError(f"two policies are called {title!r}; give one of them another label")
        many = self.seeds if isinstance(self.seeds, int) else len(self.seeds)
        if not 1 <= many <= MOST_SEEDS or len(set(self.seed_list)) < many:
            raise ValueError(
                f"seeds must be a number from 1 to {MOST_SEEDS:,}, or a list of different seeds, not {self.seeds}"
            )
        if self.trace is not None and "workload" in self.model_fields_set:
            raise ValueError("give a workload or a trace, not both")
        for key, values in self.sweep.items():
            if not values or key in NOT_SWEPT:
                raise ValueError(f"sweep: {key} " + ("has no values" if not values else "is one for all settings"))
        return self

    @property
    def spark_settings(self) -> dict[str, str]:
        """Settings of Spark under their whole names, however they are nested."""
        return {f"spark.{key}": _word(part) for key, part in flat(self.spark)}

    @property
    def seed_list(self) -> list[int]:
        """The seeds: as listed, or counted from 0."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds


@dataclass(frozen=True)
class GridSetting:
    """A point of the grid: the experiment with all lists resolved."""

    name: str
    varied: dict[str, Any]
    experiment: Experiment
    case: Case
    knowledge: Knowledge
    rule: BudgetRule

    @property
    def sweep_name(self) -> str:
        """The name without the keys that have columns of their own in every table."""
        rest = {key: value for key, value in self.varied.items() if key not in GRID_KEYS}
        return _setting_name(rest) if rest else ""

    def window(self, t0: int) -> WindowSpec:
        """Return the window, which begins with the first arrival."""
        chosen = self.experiment
        return WindowSpec(chosen.window, chosen.step, t0, chosen.closure)


def settings_of(experiment: Experiment) -> list[GridSetting]:
    """Return the whole grid: swept keys, cases, knowledge levels, budgets and banks."""
    found: list[GridSetting] = []
    for varied, point in _sweep_points(experiment):
        for case, knowledge, budget, bank in product(point.case, point.knowledge, point.budget, point.bank):
            span = -(-point.window // point.step)
            rule = BudgetRule.of(budget, budget * span if bank == "window" else bank)
            grid: dict[str, tuple[list[Any], Any]] = {
                "case": (point.case, case.value),
                "knowledge": (point.knowledge, knowledge.value),
                "budget": (point.budget, budget),
                "bank": (point.bank, bank),
            }
            listed = {key: value for key, (values, value) in grid.items() if len(values) > 1}
            whole = {**varied, **listed}
            found.append(
                GridSetting(
                    name=_setting_name(whole), varied=whole, experiment=point, case=case, knowledge=knowledge, rule=rule
                )
            )
    names = [setting.name for setting in found]
    if doubled := next((name for name in names if names.count(name) > 1), ""):
        raise ConfigError(f"two settings are called {doubled!r}; every value of a list or a sweep must differ")
    return found


def _sweep_points(experiment: Experiment) -> Iterator[tuple[dict[str, Any], Experiment]]:
    keys = list(experiment.sweep)
    plain = experiment.model_dump(mode="json", exclude={"sweep"}, exclude_unset=True)
    for values in product(*experiment.sweep.values()):
        changed = dict(zip(keys, values, strict=True))
        yield changed, resolve(plain, changed) if changed else experiment


def resolve(data: Mapping[str, Any], changes: Mapping[str, Any] | None = None) -> Experiment:
    """Validate plain data as an experiment, with some dotted keys changed; a trace replaces a workload."""
    plain = deepcopy(dict(data))
    if changes and changes.get("trace"):
        plain.pop("workload", None)
    for key, value in (changes or {}).items():
        *path, last = key.split(".")
        place = plain
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{key}: {part} has no keys of its own")
        place[last] = value
    swept = plain.get("sweep")
    for key, other in product(changes or {}, swept if isinstance(swept, dict) else {}):
        if f"{key}.".startswith(f"{other}."):  # it would have the swept values alone
            raise ConfigError(f"{key} and sweep.{other} are both given; leave one of them out")
    return validated(Experiment, plain, grids=GRID_KEYS)


def load(path: Path, changes: Mapping[str, Any] | None = None) -> Experiment:
    """Read an experiment from a YAML file; paths of traces are relative to the file."""
    path = file_or_config(path)
    if not path.exists():
        raise ConfigError(
            f"there is no config {path}; `freshkeeper config list` names those that come with freshkeeper, and "
            "`freshkeeper config init` writes one with every key"
        )
    data = read_yaml(path)
    _resolve_traces(data, path.parent)
    _resolve_traces(data.get("sweep"), path.parent)
    try:
        experiment = resolve(data, changes)
        settings_of(experiment)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return experiment


def _resolve_traces(keys: object, place: Path) -> None:
    """Resolve the paths of traces against the directory of the config."""
    if not isinstance(keys, dict):
        return
    written = keys.get("trace")
    if isinstance(written, str):
        keys["trace"] = str(place / written)
    elif isinstance(written, list):
        keys["trace"] = [str(place / one) if isinstance(one, str) else one for one in written]


def _setting_name(varied: dict[str, Any]) -> str:
    return ",".join(f"{key.split('.')[-1]}={_word(value)}" for key, value in varied.items()) or "default"


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return "+".join(f"{key}:{_word(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return "-".join(_word(part) for part in value)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).removesuffix(".0")


HEAD = """\
Every key of an experiment with its default, which is 002's own where 002 says one.
A list where one value is expected means a grid; `sweep` varies any key, dotted.
Try: freshkeeper simulate configs/reference.yaml"""


def reference() -> str:
    """Return a config with every key, its default and its meaning."""
    return written(HEAD, Experiment())
