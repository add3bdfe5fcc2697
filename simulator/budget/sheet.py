"""An answer as readers see it: a sentence, a table and a frontier; as text and JSON with the standard library alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from freshkeeper.maintenance.base.errors import ConfigError

PERIODS = {"hour": 3_600_000, "day": 86_400_000, "week": 604_800_000, "month": 2_592_000_000, "year": 31_536_000_000}
"""In ms; a month has 30 days."""


@dataclass(frozen=True)
class SheetRow:
    """A row of the table: a policy or a cache."""

    name: str
    cells: Sequence[str]
    marks: Sequence[str] = ()
    best: bool = False
    style: str = ""
    """the name of the policy that it is drawn as"""


@dataclass(frozen=True)
class FrontierPoint:
    """A point of the frontier: requests in a period, and the share of fresh answers with its interval."""

    requests: float
    fresh: float
    low: float
    high: float
    knob: float
    """the budget or the time to live"""
    in_table: bool = False


@dataclass(frozen=True)
class Sheet:
    """An answer to the question which budget keeps a target."""

    target: float
    per: str
    price: float
    lead: str
    heads: Sequence[str]
    rows: Sequence[SheetRow]
    title: str
    """of the table"""
    frontier: Mapping[str, Sequence[FrontierPoint]]
    """by the names of rows"""
    sentences: Sequence[str] = ()
    notes: Sequence[str] = ()
    facts: Sequence[str] = ()
    code: str = ""
    """the line of Python that does it"""
    data: Mapping[str, Any] = field(default_factory=dict)
    """more for as_json"""

    def as_json(self) -> dict[str, Any]:
        """Return the answer as plain data."""
        return {
            "target": self.target, "per": self.per, "price": self.price, "answer": self.lead,
            "said": list(self.sentences), "notes": list(self.notes), **self.data,
        }  # fmt: skip


def check_question(target: float, price: float, per: str) -> None:
    """Raise ConfigError for a target, a price or a period that cannot be."""
    if not 0 < target < 1:
        raise ConfigError(f"the target is {target:g}; it must be a share above 0 and below 1, as .95")
    if price < 0:
        raise ConfigError(f"the price of a request is {price:g}; it must be 0 or more")
    if per not in PERIODS:
        raise ConfigError(f"--per {per}: it must be one of {', '.join(PERIODS)}")


def three_digits(number: float) -> str:
    """Format a number of requests with three digits."""
    if number < 1:
        return f"{number:.2g}"
    return f"{float(f'{number:.3g}'):,.0f}"


def as_percent(share: float, digits: int = 1) -> str:
    """Format a share in percent."""
    return f"{100 * share:.{digits}f} %"


def target_percent(target: float) -> str:
    """Format a target in percent, with a decimal if it has one."""
    return as_percent(target, 0 if round(100 * target, 6).is_integer() else 1)
