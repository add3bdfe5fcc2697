"""A continuous query as a user defines it, and registered under its name with what its text means."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from freshkeeper.maintenance.base.errors import nearest
from freshkeeper.maintenance.base.field_types import Amount, Duration
from freshkeeper.maintenance.cache.cache_settings import PolicyText
from freshkeeper.maintenance.engine.evaluation_limits import EvaluationLimits
from freshkeeper.maintenance.engine.native.templates import QueryTemplate
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings, PolicyName
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.parser import DIALECTS


def check_dialect(dialect: str) -> None:
    """Raise ValueError with the nearest name if no dialect is called so; an empty text is detected later."""
    if dialect and dialect not in DIALECTS:
        raise ValueError(f"dialect: {nearest(dialect, list(DIALECTS))}")


class QueryDefinition(BaseModel):
    """A query as a config, a request or the log of a service defines it, with the settings that are its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(default="", description="a file with the query, or the query itself")
    dialect: str = Field(default="", description="default: the dialect of the run or service")
    policy: PolicyText = Field(default="", description="what chooses the refreshes; default: the policy of the run")
    weight: Amount = Field(default=1, description="shared: how much its answers count beside those of other queries")
    fetch: Fetch | None = Field(default=None, description="view, always or once; default: as the run says")
    limit: Duration | None = Field(
        default=None, description="how long one evaluation may take; default: the limit of the run"
    )
    most_rows: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="how many rows one evaluation may have; default: the limit of the run"
    )
    instances: str | list[dict[str, str | int | float | bool | None]] | None = Field(
        default=None,
        description="templates: a CSV file with a head, a YAML file with a list of rows, or the rows; a column called "
        "name names the instances",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_dialect(self.dialect)
        return self

    @property
    def limits(self) -> EvaluationLimits:
        """The limits of one evaluation."""
        return EvaluationLimits(self.most_rows, self.limit)

    def settings(self, settings: MaintenanceSettings) -> MaintenanceSettings:
        """Return the settings of a run with the query's own policy and fetch mode, where it has some."""
        policy = PolicyName(self.policy) if self.policy else settings.policy
        return replace(settings, policy=policy, fetch=self.fetch or settings.fetch)


@dataclass(frozen=True, eq=False)
class RegisteredQuery:
    """A query under its name: its definition, what its text means, and how its views are kept fresh."""

    query: Query
    name: str = ""
    settings: MaintenanceSettings | None = None
    definition: QueryDefinition = field(default_factory=QueryDefinition)
    """with the text in the place of a file"""
    template: QueryTemplate | None = None
    """several queries that differ in constants alone and run as one plan; this one has the name of the first"""
    number: int = 0
    """of all queries that a service ever registered"""
    first_view: int = 0
    """the number of its first view in the state of a service"""
    configured: bool = False
    """whether it comes from the config of a service, and goes when the config names it no more"""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all queries that this one stands for."""
        return (self.name,) if self.template is None else self.template.names

    @property
    def text(self) -> str:
        """The text of the query."""
        return self.definition.query
