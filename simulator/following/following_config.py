"""The config of experiments about following: ways to annotate, and numbers of clients over real connections."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from freshkeeper.maintenance.base.durations import as_ms
from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.base.yaml_file import read_yaml
from freshkeeper.maintenance.sources.fragments.annotation_style import AnnotationEncoding, TimeEncoding

Duration = Annotated[int, BeforeValidator(as_ms), Field(ge=1)]


def _listed(value: object) -> object:
    if isinstance(value, str):
        return value.split(",")
    return [value] if isinstance(value, int) else value


Listed = BeforeValidator(_listed)
Clients = Annotated[int, Field(ge=1, le=1_000)]
History = Literal["dropped", "whole", "now"]


class FollowingExperiment(BaseModel):
    """Clients that follow 004's query over its trains."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = Field(default="", description="what the page is headed with")
    trains: int = Field(default=100, ge=1, description="trains, with three static triples and two that change each")
    lasts: Duration = Field(default=10_000, description="how long each delay and each platform holds")
    speaking: Annotated[list[AnnotationEncoding], Listed] = Field(
        default=list(AnnotationEncoding), description="ways to speak of a triple that are compared"
    )
    timing: Annotated[list[TimeEncoding], Listed] = Field(
        default=list(TimeEncoding), description="ways to say its time"
    )
    history: Annotated[list[History], Listed] = Field(
        default=["dropped", "whole", "now"],
        description="what becomes of what is over, where intervals say the time: dropped; or kept, and read whole, or "
        "by what holds now",
    )
    cache: Annotated[list[bool], Listed] = Field(
        default=[True, False], description="whether clients keep the static part, and pages as long as they hold"
    )
    changes: int = Field(default=20, ge=2, description="evaluations of each way to annotate")
    clients: Annotated[list[Clients], Listed] = Field(
        default=[1, 10, 50, 100, 200], description="clients at once, with graphs and expirations; empty: none"
    )
    measured: Duration = Field(default=35_000, description="how long each number of clients is measured")


def load(path: Path, changes: Mapping[str, Any]) -> FollowingExperiment:
    """Read an experiment from a YAML file, with some keys changed."""
    plain = deepcopy(read_yaml(path)) | dict(changes)
    return validated(FollowingExperiment, plain, f"{path}: ")
