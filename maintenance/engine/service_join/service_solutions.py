"""Sources of the solutions of a SERVICE pattern: the view, or the remote source itself (the baselines).

view     a local view, kept fresh within a budget by a policy: the purpose of freshkeeper
always   no cache: one request per lookup key and evaluation, as C-SPARQL does
once     one request per lookup key, ever
"""

from enum import StrEnum
from typing import Protocol

from freshkeeper.maintenance.engine.service_join.values import ServiceRows
from freshkeeper.maintenance.fetching.fetch_jobs import FetchJob


class Fetch(StrEnum):
    """The occasions on which sources are queried."""

    VIEW = "view"
    ALWAYS = "always"
    ONCE = "once"


class ServiceSolver(Protocol):
    """Answers one SERVICE pattern of one query."""

    errors: int

    def prepare(self, now: int) -> FetchJob:
        """Return the fetch job that must finish before `rows` is called."""
        ...

    def rows(self, now: int) -> ServiceRows:
        """Return the solutions at an evaluation. A source that fails counts in `errors` and never ends the run."""
        ...

    def rebuild(self, now: int, done: int) -> FetchJob | None:
        """Restore the state after an evaluation that an earlier run answered; `done` is the last of these."""
        ...

    def leave(self) -> None:
        """Release what is shared: the query has ended."""
        ...
