"""Where the solutions of a SERVICE pattern come from: the view, or the source itself (the baselines).

view     a local view, kept fresh within a budget by a policy: what freshkeeper is for
always   no cache: one request per SN and evaluation, as C-SPARQL does
once     one request per SN, ever
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from freshkeeper.maintenance.engine.evaluator import Evaluator, Function
from freshkeeper.maintenance.engine.service_join.values import ServiceRows
from freshkeeper.maintenance.fetching.asking import Asking


class Fetch(StrEnum):
    """When sources are asked."""

    VIEW = "view"
    ALWAYS = "always"
    ONCE = "once"


class Service(Protocol):
    """One SERVICE pattern of one query."""

    errors: int

    def prepare(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Asking:
        """What must be asked before there are rows."""
        ...

    def rows(self, now: int) -> ServiceRows:
        """Its solutions at an instant; a source that fails is counted in `errors` and never ends the run."""
        ...

    def rebuild(self, now: int, done: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Asking | None:
        """An instant that an earlier run answered, which left a state, the last of them being `done`."""
        ...

    def leave(self) -> None:
        """The query needs nothing any more."""
        ...
