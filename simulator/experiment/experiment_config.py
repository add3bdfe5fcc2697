"""The config of an experiment: one validated model behind the YAML files in configs/ and the options of `simulate`.

Every key has a default, 002's own where 002 says one. A grid is declared under `sweep`: dotted keys (`workload.edges`),
each with a list of values or a range. Unknown keys are errors that suggest the near match.
"""

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.durations import as_ms, to_ms, to_unit
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.field_types import Amount
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

GRID_KEYS = ("case", "knowledge", "budget", "bank")
"""Swept keys that have columns of their own in every table, in the order in which the command line sweeps them."""
NOT_SWEPT = ("title", "seeds", "sweep", "spark", "target", "baselines")
"""Keys with one value for the whole experiment."""
MAX_SEEDS = 100_000
MAX_SWEPT_VALUES = 10_000
"""Values of one range: more are a mistake in its step."""
NUMBER = r"-?\d+(?:\.\d+)?"
RANGE = re.compile(rf"\s*({NUMBER})(\w*)\s*\.\.\s*({NUMBER})(\w*)\s*(?:(by|times)\s+({NUMBER})(\w*))?\s*")


def swept_values(value: object) -> object:
    """Return the values of a swept key: `[5, 10]`, the text `5,10`, or a range.

    Ranges are `5..30 by 5`, `1..64 times 2` and `1h..4h by 1h`; `1..5` alone counts by 1, and both ends are included.
    What is no list and no such text is returned unchanged, for the model to refuse.
    """
    if isinstance(value, str) and ("," in value or RANGE.fullmatch(value)):
        value = [yaml.safe_load(part) for part in value.split(",")]
    if not isinstance(value, list | tuple):
        return value
    found: list[object] = []
    for item in value:
        match = RANGE.fullmatch(item) if isinstance(item, str) else None
        found += [item] if match is None else _range_values(match)
    return found


def _range_values(match: re.Match[str]) -> list[object]:
    """Return the numbers or durations of a range."""
    first, first_unit, last, last_unit, how, step, step_unit = match.groups(default="")
    timed = bool(first_unit or last_unit)
    low, high, change = float(first), float(last), float(step or 1)
    if timed:
        low, high = float(to_ms(first + first_unit)), float(to_ms(last + last_unit))
    if timed and how != "times":
        change = float(to_ms(step + step_unit))
    elif step_unit:
        raise ValueError(f"{match.string}: {step}{step_unit} has a unit that the ends lack")
    forward = change > 1 and low > 0 if how == "times" else change > 0
    if not forward or low > high:
        raise ValueError(f"{match.string} is no range; write it as 5..30 by 5, or 1..64 times 2")
    values: list[object] = []
    n, at = 0, low
    # Rounding errors must not lose the end: 0.1..0.3 by 0.1 has three values.
    while at <= high * (1 + 1e-9):
        number = round(at, 10)
        if timed:
            values.append(to_unit(round(number)))
        else:
            values.append(int(number) if number.is_integer() else number)
        n += 1
        at = low + n * change
        if how == "times":
            at = low * change**n
        if n > MAX_SWEPT_VALUES:
            raise ValueError(f"{match.string} has more than {MAX_SWEPT_VALUES:,} values; give it a larger step")
    return values


def _one_value(value: object, key: ValidationInfo) -> object:
    """Refuse a list of values, which once declared a grid."""
    if isinstance(value, list | tuple) or (isinstance(value, str) and "," in value):
        listed = str(value).strip("[]()")
        raise ValueError(f"it takes one value; a grid is declared as sweep: {{{key.field_name}: [{listed}]}}")
    return value


Duration = Annotated[int, BeforeValidator(as_ms), Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
OneValue = BeforeValidator(_one_value)
SweptValues = Annotated[list[Any], BeforeValidator(swept_values)]


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
    case: Annotated[Case, OneValue] = Field(
        default=Case.BGP, description="bgp, or aggregate", json_schema_extra=option("case", "A,B")
    )
    knowledge: Annotated[Knowledge, OneValue] = Field(
        default=Knowledge.EXACT,
        description="exact, published, rates (the true mean rates alone), or learned",
        json_schema_extra=option("knowledge", "A,B"),
    )
    budget: Annotated[Amount, OneValue] = Field(
        default=10.0, description="γ, cost units per evaluation", json_schema_extra=option("budget", "5,10")
    )
    bank: Annotated[Amount | Literal["window"], OneValue] = Field(
        default=0.0, description="capacity of the bank; window: γ·ω/β", json_schema_extra=option("bank", "N")
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
    sweep: dict[str, SweptValues] = Field(
        default={},
        description="the grid: keys to vary, dotted, each with a list of values or a range: "
        "{budget: [5, 10, 20..60 by 20], workload.edges: 250..4000 times 2}",
    )
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
        if not 1 <= many <= MAX_SEEDS or len(set(self.seed_list)) < many:
            raise ValueError(
                f"seeds must be a number from 1 to {MAX_SEEDS:,}, or a list of different seeds, not {self.seeds}"
            )
        if self.trace is not None and "workload" in self.model_fields_set:
            raise ValueError("give a workload or a trace, not both")
        for key, values in self.sweep.items():
            if not values or key in NOT_SWEPT:
                raise ValueError(f"sweep: {key} " + ("has no values" if not values else "is one for all settings"))
            if key in self.model_fields_set:
                raise ValueError(f"{key} and sweep.{key} are both given; leave one of them out")
        return self

    @property
    def spark_settings(self) -> dict[str, str]:
        """Settings of Spark under their whole names, however they are nested."""
        return {f"spark.{key}": _word(part) for key, part in flat(self.spark)}

    @property
    def rule(self) -> BudgetRule:
        """Return the rule of a ledger, in which a bank of `window` holds the budget of one window."""
        windows = -(-self.window // self.step)
        return BudgetRule.of(self.budget, self.budget * windows if self.bank == "window" else self.bank)

    @property
    def plain(self) -> dict[str, Any]:
        """The experiment as plain data from which it can be made again, without where it runs."""
        return self.model_dump(mode="json", exclude={"spark", *(key for key in self.sweep if "." not in key)})

    @property
    def seed_list(self) -> list[int]:
        """The seeds: as listed, or counted from 0."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds


@dataclass(frozen=True)
class GridSetting:
    """A point of the grid: the experiment with one value of each swept key."""

    varied: dict[str, Any]
    experiment: Experiment

    @cached_property
    def name(self) -> str:
        """The name in tables: swept keys and values."""
        return _setting_name(self.varied) or "default"

    @cached_property
    def digest(self) -> str:
        """A digest of all values that a run depends on, apart from its seed and its policies.

        The same values have the same digest whatever is swept: runs are found again when a grid grows.
        """
        apart = {"title", "seeds", "sweep", "spark", "target"}
        if "policies" not in self.varied:
            apart.add("policies")
        plain = self.experiment.model_dump(mode="json", exclude=apart)
        return blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=10).hexdigest()

    @cached_property
    def values(self) -> dict[str, Any]:
        """The values of the swept keys as the model reads them, with dotted keys: 4000 for a window of 4s."""
        plain = self.experiment.model_dump(mode="json", include={key.split(".")[0] for key in self.varied})
        whole = dict(flat(plain))
        swept = tuple(f"{key}." for key in self.varied)
        return {key: value for key, value in whole.items() if f"{key}.".startswith(swept)}

    @property
    def sweep_name(self) -> str:
        """The name without the keys that have columns of their own in every table."""
        return _setting_name({key: value for key, value in self.varied.items() if key not in GRID_KEYS})

    @property
    def case(self) -> Case:
        """The case of the answers."""
        return self.experiment.case

    @property
    def knowledge(self) -> Knowledge:
        """The level of knowledge."""
        return self.experiment.knowledge

    @cached_property
    def rule(self) -> BudgetRule:
        """The rule of the ledger of every run."""
        return self.experiment.rule

    def window(self, t0: int) -> WindowSpec:
        """Return the window, which begins with the first arrival."""
        chosen = self.experiment
        return WindowSpec(chosen.window, chosen.step, t0, chosen.closure)


def settings_of(experiment: Experiment) -> list[GridSetting]:
    """Return the whole grid, the last swept key fastest."""
    if not experiment.sweep:
        return [GridSetting({}, experiment)]
    plain = experiment.model_dump(mode="json", exclude={"sweep"}, exclude_unset=True)
    found = []
    for values in product(*experiment.sweep.values()):
        varied = dict(zip(experiment.sweep, values, strict=True))
        found.append(GridSetting(varied, resolve(plain, varied)))
    seen: set[str] = set()
    for setting in found:
        if setting.name in seen:
            raise ConfigError(f"two settings are called {setting.name!r}; every value of a sweep must differ")
        seen.add(setting.name)
    return found


def resolve(data: Mapping[str, Any], changes: Mapping[str, Any] | None = None) -> Experiment:
    """Validate plain data as an experiment, with some dotted keys changed.

    A key that is given one value is no longer swept, and one that is swept has no other value; the other keys of a
    sweep stay. A trace replaces a workload.
    """
    plain, fixed = deepcopy(dict(data)), dict(changes or {})
    added = fixed.pop("sweep", {})
    if fixed.get("trace"):
        plain.pop("workload", None)
    grid = plain.get("sweep") or {}
    if isinstance(grid, dict) and isinstance(added, dict):
        grid = {key: values for key, values in grid.items() if key not in fixed} | added
        plain = {key: value for key, value in plain.items() if key not in added} | {"sweep": grid}
    for key, value in fixed.items():
        *path, last = key.split(".")
        place = plain
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{key}: {part} has no keys of its own")
        place[last] = value
    for key, other in product(fixed, grid if isinstance(grid, dict) else {}):
        if f"{key}.".startswith(f"{other}."):  # it would have the swept values alone
            raise ConfigError(f"{key} and sweep.{other} are both given; leave one of them out")
    return validated(Experiment, plain)


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
    return ",".join(f"{key.split('.')[-1]}={_word(value)}" for key, value in varied.items())


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
`sweep` declares a grid: any key, dotted, with a list of values or a range.
Try: freshkeeper simulate configs/reference.yaml"""


def reference() -> str:
    """Return a config with every key, its default and its meaning."""
    return written(HEAD, Experiment())
