"""Which evaluator runs a query."""

from enum import StrEnum


class EvaluatorKind(StrEnum):
    """The native one where there is a plan, or the one to insist on."""

    AUTO = "auto"
    NATIVE = "native"
    SNAPSHOT = "snapshot"
