"""Settings that everything with a cache has: what refreshes may cost, and what chooses them.

Configurations extend these models, so their keys stay flat in YAML and become options of the command line.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.field_types import Amount
from freshkeeper.maintenance.base.reference import option
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.policies.registry import as_text


def read_policy(value: object) -> object:
    """Return the text of a policy that a config has as a mapping; the text itself is checked."""
    if not isinstance(value, str | Mapping) or not value:
        return value
    try:
        return as_text(value)
    except ConfigError as error:
        raise ValueError(str(error)) from None


PolicyText = Annotated[
    str,
    BeforeValidator(read_policy),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object", "required": ["name"]}]}),
]
"""A policy with its settings: `bandit(bonus=2)`, or a mapping {name: bandit, bonus: 2}."""


class BudgetSettings(BaseModel):
    """The cost that refreshes may have, and the part of it that measures how fresh answers are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    budget: Amount = Field(default=10, description="cost units per evaluation, for every SERVICE pattern")
    bank: Amount = Field(default=0, description="the cost units that may be saved for later evaluations")
    target: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="the share of answers that should be fresh, as 0.95: a controller sets the cost of each evaluation "
        "from audits, and budget is its maximum; default: budget is the cost of each evaluation",
    )
    audit: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0, description="the share of the budget that measures how fresh the answers are, as 0.05"
    )
    capacity: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="the maximal number of cached entries of a view; default: no limit"
    )
    seed: Annotated[int, Field(ge=0)] = Field(default=0, description="random seed of policies and audits")

    @property
    def rule(self) -> BudgetRule:
        """The budget as ledgers take it."""
        return BudgetRule.of(self.budget, self.bank)


class CacheSettings(BudgetSettings):
    """Settings of the views of queries over windows: how they are kept fresh."""

    policy: PolicyText = Field(
        default="",
        description="what chooses the refreshes, with its settings, as bandit(bonus=2) or {name: bandit, bonus: 2}; "
        "default: plan, and bundle for aggregates",
    )
    edges: Literal["kept", "refreshed"] = Field(
        default="kept", description="refreshed: the entries that a lookup key needs change over time, too"
    )
    shared: bool = Field(
        default=False, description="all SERVICE patterns share one budget, which goes where it brings most"
    )
    weights: dict[str, Amount] = Field(
        default={},
        description="shared: how much an answer of each source counts (docs/several-queries.md); default: 1",
        json_schema_extra=option("weight", "IRI=N"),
    )

    @model_validator(mode="after")
    def _check_budget(self) -> Self:
        if self.target is not None and self.shared:
            raise ValueError("target: it sets a budget for each SERVICE pattern: leave out shared")
        if self.target is not None and not self.budget:
            raise ValueError("target: it needs a budget, which is the most: say budget: 10")
        if self.weights and not self.shared:
            raise ValueError("weights are for a shared budget: say shared: true")
        return self
