"""The language front end: text → shell → query object, the dialects, the way back to text, and what it all means."""

from maintenance.query.errors import DialectError, QuerySyntaxError, SplitError
from maintenance.query.explain import explain, explain_text
from maintenance.query.model import (
    Closure,
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
from maintenance.query.parser import DIALECTS, detect, parse
from maintenance.query.printing import to_dialect, to_rspql
from maintenance.query.prologue import DEFAULT_BASE, Prologue
from maintenance.query.services import ServicePattern
from maintenance.query.split import Split, split

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
