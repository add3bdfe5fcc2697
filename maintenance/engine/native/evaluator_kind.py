"""The choice of evaluator for a query."""

from enum import StrEnum


class EvaluatorKind(StrEnum):
    """auto: native if the query has a native plan, otherwise snapshot; the others insist on one."""

    AUTO = "auto"
    NATIVE = "native"
    SNAPSHOT = "snapshot"
