"""The public face: the names that people import, and the `freshkeeper` command.

A ten-line example is in the README; `docs/writing-a-policy.md` shows how to add a policy.
"""

from maintenance.budget import BudgetRule, Ledger
from maintenance.evaluation import Answer, Answers, Evaluation, Record
from maintenance.inspection import to_networkx
from maintenance.manager import Manager
from maintenance.service.embedded import Embedded
from maintenance.service.endpoint import Copy, Endpoint, Expanded, Fetched, Price
from maintenance.service.memory import InMemory
from maintenance.view.changes import ChangeModel
from maintenance.view.learned import Learned, Poisson
from maintenance.view.published import Published
from maintenance.view.schedule import FixedSchedule, RecordedChanges
from maintenance.view.survival import Survival
from maintenance.window import Closure, WindowSpec
from policies.base import Budget, Case, Graph, Honest, Knowledge, Policy, Round, Selection
from policies.contract import check as check_policy
from policies.errors import FreshkeeperError
from policies.registry import make as policy
from policies.rounds import round_of

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Answers",
    "Budget",
    "BudgetRule",
    "Case",
    "ChangeModel",
    "Closure",
    "Copy",
    "Embedded",
    "Endpoint",
    "Evaluation",
    "Expanded",
    "Fetched",
    "FixedSchedule",
    "FreshkeeperError",
    "Graph",
    "Honest",
    "InMemory",
    "Knowledge",
    "Learned",
    "Ledger",
    "Manager",
    "Poisson",
    "Policy",
    "Price",
    "Published",
    "Record",
    "RecordedChanges",
    "Round",
    "Selection",
    "Survival",
    "WindowSpec",
    "__version__",
    "check_policy",
    "policy",
    "round_of",
    "to_networkx",
]
