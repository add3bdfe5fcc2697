"""What an output is: where answers go, and how."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.outputs.kafka_output import KafkaOutput
from freshkeeper.maintenance.outputs.rotating_file import RotatingFile
from freshkeeper.maintenance.outputs.sender import Output
from freshkeeper.maintenance.outputs.webhook import Webhook, secret_of

WAYS = "kafka://broker:9092/TOPIC, https://host/path, or a file"


def _names(written: object) -> object:
    return [written] if isinstance(written, str) else written


class OutputConfig(BaseModel):
    """One output; beside `to`, what its kind needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    to: str = Field(description=f"where answers go: {WAYS}")
    queries: Annotated[list[str], BeforeValidator(_names)] = Field(
        default=[], description="of a service: whose answers; empty: those of all"
    )
    secret: str = Field(default="", description="webhooks: the environment variable with what signs them")
    tries: Annotated[int, Field(ge=1)] = Field(default=8, description="webhooks: before an answer is a dead letter")
    dead_letters: Path | None = Field(default=None, description="webhooks: the file for answers that nobody takes")
    largest: Annotated[int, Field(ge=1)] = Field(default=1 << 26, description="files: bytes before a new one begins")
    keep: Annotated[int, Field(ge=0)] = Field(default=5, description="files: how many older ones are kept")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        kind, there, _ = self.to.partition("://")
        if not self.to or (there and kind not in ("kafka", "http", "https")):
            raise ValueError(f"to: {shown(self.to)!r} is no output: write {WAYS}")
        return self

    def opened(self, dead_letters: Path) -> Output:
        """The receiver, by what the address begins with."""
        if self.to.startswith("kafka://"):
            return KafkaOutput(self.to)
        if "://" in self.to:
            return Webhook(self.to, secret_of(self.secret), self.dead_letters or dead_letters, self.tries)
        return RotatingFile(Path(self.to), self.largest, self.keep)


def output_of(written: object) -> object:
    """An address alone is one."""
    return {"to": written} if isinstance(written, str) and written else written or None


def placed(place: Path, written: object) -> object:
    """The same with its files beside a config."""
    if not isinstance(written, dict):
        return written
    files = {key: written[key] for key in ("to", "dead_letters") if isinstance(written.get(key), str)}
    return written | {key: str(place / file) for key, file in files.items() if file and "://" not in file}
