"""The language front end: text → shell → query object, the dialects, the way back to text, and what it all means."""

from freshkeeper.maintenance.query.explain import explain, explain_text
from freshkeeper.maintenance.query.federation.service_patterns import ServicePattern
from freshkeeper.maintenance.query.federation.split import Split, split
from freshkeeper.maintenance.query.model import (
    Dataset,
    EvaluationTimes,
    Expression,
    Form,
    Operator,
    Query,
    Report,
    Window,
    WindowKind,
)
from freshkeeper.maintenance.query.parser import DIALECTS, detect, parse
from freshkeeper.maintenance.query.printing import to_dialect, to_rspql
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue
from freshkeeper.maintenance.query.syntax.query_errors import DialectError, QuerySyntaxError, SplitError
from freshkeeper.maintenance.settings.closure import Closure

__all__ = [
    "DEFAULT_BASE",
    "DIALECTS",
    "Closure",
    "Dataset",
    "DialectError",
    "EvaluationTimes",
    "Expression",
    "Form",
    "Operator",
    "Prologue",
    "Query",
    "QuerySyntaxError",
    "Report",
    "ServicePattern",
    "Split",
    "SplitError",
    "Window",
    "WindowKind",
    "detect",
    "explain",
    "explain_text",
    "parse",
    "split",
    "to_dialect",
    "to_rspql",
]
