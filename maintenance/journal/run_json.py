"""run.json: settings, versions and command of a run; written and read only here."""

import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from freshkeeper.maintenance.base.addresses import mask_secrets_in
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.files import PRIVATE, atomic_file
from freshkeeper.maintenance.base.validation import explained

if TYPE_CHECKING:
    from freshkeeper.maintenance.cache.manager import Manager

FILE = "run.json"
LIBRARIES = ("numpy", "scipy", "numba", "pyarrow", "pyoxigraph", "simpy", "highspy")
NO_BOUND = "the best possible choice is not known in production"


class RunError(InputError):
    """A directory that is no run directory, or one that cannot be read."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore")


class Setting(_Part):
    """A setting: the keys that were varied, and the values that every reader needs."""

    varied: dict[str, Any] = Field(default_factory=dict)
    values: dict[str, Any] = Field(default_factory=dict)
    """the varied keys as the experiment reads them: 4000 for a window of 4s"""
    digest: str = ""
    """of all values of a simulation, by which its runs are found again"""
    budget: float | None = None
    bank: float | None = None
    case: str = ""
    knowledge: str = ""
    range_ms: int | None = None
    step_ms: int | None = None
    start: str = ""
    evaluations: int | None = None


class Contender(_Part):
    """A policy of a run, which has its label as key."""

    name: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    keeps_budget: bool = Field(default=True, validation_alias=AliasChoices("keeps_budget", "honest"))
    """called `honest` in older runs"""
    is_bound: bool = False
    budgeted: bool = True


class BoundNote(_Part):
    """States if the clairvoyant bound was computed, and otherwise the reason."""

    included: bool = True
    reason: str = ""


class About(_Part):
    """A description of a run; views are added when they are evaluated first."""

    freshkeeper: str = ""
    versions: dict[str, Any] = Field(default_factory=dict)
    command: str = ""
    commit: str = ""
    """of the checkout that ran, where it ran from one"""
    host: dict[str, Any] = Field(default_factory=dict)
    started: str = ""
    written: str = ""
    """when it was begun, and when run.json was written last: UTC"""
    complete: bool = True
    finished: int | None = None
    runs: int | None = None
    """of a simulation: `finished` of these runs, each of one setting with one seed, are in its tables"""
    config: dict[str, Any] = Field(default_factory=dict)
    seeds: list[int] = Field(default_factory=list)
    settings: dict[str, Setting] = Field(default_factory=dict)
    policies: dict[str, Contender] = Field(default_factory=dict)
    bound: BoundNote | None = None

    @property
    def flat_config(self) -> dict[str, Any]:
        return dict(flat(self.config))

    @classmethod
    def of_queries(cls, seed: int, command: str, config: Mapping[str, object]) -> "About":
        """Describe a run in production, before its first evaluation."""
        bound = BoundNote(included=False, reason=NO_BOUND)
        return cls(command=command, started=timestamp(), complete=False, config=dict(config), seeds=[seed], bound=bound)

    @classmethod
    def read(cls, directory: Path) -> "About | None":
        """Read run.json, None if there is none; RunError if it cannot be read."""
        file = directory / FILE
        if not file.exists():
            return None
        try:
            return cls.model_validate(json.loads(file.read_text("utf-8")))
        except ValidationError as error:
            raise RunError(f"{file}: {explained(error, cls)}") from error
        except (OSError, ValueError) as error:
            raise RunError(f"{file} cannot be read: {str(error).splitlines()[0]}") from error

    def add(self, source: str, manager: "Manager") -> bool:
        """Add a view with its policy; return whether it is new."""
        rule, window, policy = manager.ledger.rule, manager.window, manager.policy
        if source in self.settings and policy.name in self.policies:
            return False
        self.settings[source] = Setting(
            budget=float(rule.per_evaluation), bank=float(rule.bank), case=manager.case.value,
            knowledge=manager.model.knowledge.value, range_ms=window.range, step_ms=window.step, start="cold",
        )  # fmt: skip
        self.policies[policy.name] = Contender(
            name=policy.name, keeps_budget=policy.keeps_budget, is_bound=policy.is_bound,
            budgeted=getattr(policy, "budgeted", True),
        )  # fmt: skip
        return True

    def write(self, directory: Path, mode: int = PRIVATE) -> None:
        """Write run.json, without user names and secrets of addresses."""
        with atomic_file(directory / FILE, mode) as file:
            plain = self.model_dump() | _made_with() | {"written": timestamp()}
            text = json.dumps(mask_secrets_in(plain), indent=2, default=str)
            file.write_text(text, encoding="utf-8")


@cache
def _made_with() -> dict[str, object]:
    """Return versions, commit and host; finding them takes 20 ms."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    host = {"name": platform.node(), "system": platform.platform(), "cores": os.cpu_count()}
    return {
        "freshkeeper": version("freshkeeper"),
        "versions": found | {"python": platform.python_version()},
        "commit": _commit(),
        "host": host,
    }


def _commit() -> str:
    """Return the commit of the checkout that these modules are in, or of which they were installed."""
    root = Path(__file__).resolve().parents[2]
    if (root / ".git").exists():  # not of a repository around an installed package
        with suppress(OSError, subprocess.SubprocessError):
            asked = ["git", "-C", str(root), "rev-parse", "HEAD"]
            return subprocess.run(asked, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    with suppress(PackageNotFoundError, ValueError, KeyError):
        origin = json.loads(distribution("freshkeeper").read_text("direct_url.json") or "{}")
        return str(origin["vcs_info"]["commit_id"])
    return ""


def timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, part in config.items():
        if isinstance(part, Mapping) and part:
            yield from flat(part, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", part
