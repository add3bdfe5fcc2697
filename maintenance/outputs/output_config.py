"""The configuration of outputs, to which answers are sent."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.outputs.kafka_output import KafkaOutput
from freshkeeper.maintenance.outputs.result_sink import RotatingFile
from freshkeeper.maintenance.outputs.sender import Receiver
from freshkeeper.maintenance.outputs.webhook import Webhook, secret_of

WAYS = "kafka://broker:9092/TOPIC, https://host/path, or a file"


def _names(value: object) -> object:
    if isinstance(value, str):
        return [value]
    return value


class OutputConfig(BaseModel):
    """An output: its address, and settings for its kind."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    to: str = Field(description=f"where answers go: {WAYS}")
    queries: Annotated[list[str], BeforeValidator(_names)] = Field(
        default=[], description="service: the queries whose answers are sent; default: all"
    )
    secret: str = Field(default="", description="webhooks: environment variable with the key that signs them")
    tries: Annotated[int, Field(ge=1)] = Field(
        default=8, description="webhooks: attempts before an answer is a dead letter"
    )
    dead_letters: Path | None = Field(default=None, description="webhooks: file for answers that are not accepted")
    largest: Annotated[int, Field(ge=1)] = Field(
        default=1 << 26, description="files: size in bytes at which a new one begins"
    )
    keep: Annotated[int, Field(ge=0)] = Field(default=5, description="files: number of older files to keep")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        kind, there, _ = self.to.partition("://")
        if not self.to or (there and kind not in ("kafka", "http", "https")):
            raise ValueError(f"to: {mask_secrets(self.to)!r} is no output: write {WAYS}")
        return self

    def open_receiver(self, dead_letters: Path) -> Receiver:
        """Return the receiver for the kind of the address."""
        if self.to.startswith("kafka://"):
            return KafkaOutput(self.to)
        if "://" in self.to:
            return Webhook(self.to, secret_of(self.secret), self.dead_letters or dead_letters, self.tries)
        return RotatingFile(Path(self.to), self.largest, self.keep)


def output_of(value: object) -> object:
    """Return the mapping of an output for its address alone."""
    if isinstance(value, str) and value:
        return {"to": value}
    return value or None


def placed(place: Path, value: object) -> object:
    """Return the configuration with its files resolved against a directory."""
    if not isinstance(value, dict):
        return value
    resolved = {}
    for key in ("to", "dead_letters"):
        file = value.get(key)
        if isinstance(file, str) and file and "://" not in file:
            resolved[key] = str(place / file)
    return value | resolved
