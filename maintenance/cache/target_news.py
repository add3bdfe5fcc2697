"""A sentence for people about a target: whether it was kept, and what it cost."""

from freshkeeper.maintenance.cache.budget.target_income import TargetIncome
from freshkeeper.maintenance.cache.manager import Manager

DAY = 86_400_000
NOTABLE_SHARE = 0.1
"""The part of the evaluations at the ceiling, below the target, from which on that is said."""


def daily(manager: Manager) -> float | None:
    """Cost units a day at the pace of the evaluations so far; None where they do not come by the clock."""
    done, step = manager.ledger.evaluations, manager.window.step
    return None if manager.window.count or not done else float(manager.ledger.spent) / done / step * DAY


def target_news(name: str, manager: Manager) -> str:
    """Summarise a run with a target: what audits measured, and what it cost of what it might have."""
    ledger = manager.ledger
    assert isinstance(ledger.income, TargetIncome)
    control, measured = ledger.income.controller, manager.auditor.measured if manager.auditor is not None else None
    said = f"{name + ': ' if name else ''}target {control.target:g}: "
    if measured is None or measured.share is None:
        said += "no answer was audited"
    else:
        low, high = measured.interval
        said += f"{measured.share:.3f} of {measured.checked:,} audited answers were fresh ({low:.3f} to {high:.3f})"
    each = float(ledger.spent) / max(1, ledger.evaluations)
    said += f", for {each:.2f} of at most {float(control.ceiling):g} cost units per evaluation"
    if (day := daily(manager)) is not None:
        said += f", which is {day:,.0f} a day"
    if control.at_ceiling > NOTABLE_SHARE * control.evaluations:
        said += f"; {control.at_ceiling:,} of {control.evaluations:,} evaluations would have needed more"
    return said
