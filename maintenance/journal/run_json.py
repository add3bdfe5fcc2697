"""run.json of a production journal: what was run, with which settings and versions, and how to do it again."""

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.files import PRIVATE, make_directory
from freshkeeper.maintenance.journal.journal import writing
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.settings.addresses import shown_in

LIBRARIES = ("numpy", "scipy", "numba", "pyarrow", "pyoxigraph")


@dataclass(eq=False)
class About:
    """What is known of a run; the settings of a view are known when it evaluates first."""

    seed: int
    command: str = ""
    config: Mapping[str, object] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    policies: dict[str, Any] = field(default_factory=dict)

    def add(self, source: str, manager: Manager) -> bool:
        """One more view; tells whether it is new."""
        rule, window, policy = manager.ledger.rule, manager.window, manager.policy
        if source in self.settings and policy.name in self.policies:
            return False
        self.settings[source] = {
            "varied": {},
            "budget": float(rule.per_evaluation),
            "bank": float(rule.bank),
            "case": manager.case.value,
            "knowledge": manager.model.knowledge.value,
            "range_ms": window.range,
            "step_ms": window.step,
            "start": "cold",
        }
        own = {"name": policy.name, "settings": {}, "honest": policy.honest, "is_bound": policy.is_bound}
        self.policies[policy.name] = own
        return True

    def write(self, directory: Path, complete: bool) -> None:
        """Put run.json into place whole."""
        text = {
            "freshkeeper": version("freshkeeper"),
            "versions": {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()},
            "command": self.command,
            "complete": complete,
            "config": self.config,
            "seeds": [self.seed],
            "settings": self.settings,
            "policies": self.policies,
            "bound": {"included": False, "reason": "what could have been is not known in production"},
        }
        with writing(directory / "run.json"):
            make_directory(directory)
            unfinished = directory / ".run.json.part"
            unfinished.unlink(missing_ok=True)
            unfinished.touch(PRIVATE)
            unfinished.write_text(json.dumps(shown_in(text), indent=2, default=str), encoding="utf-8")
            unfinished.replace(directory / "run.json")
