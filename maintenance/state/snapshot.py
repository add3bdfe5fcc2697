"""The small parts of a manager as JSON and back: its ledger, its lots, its audits, its policy."""

from fractions import Fraction
from typing import Any

from freshkeeper.maintenance.manager import Manager


def taken(manager: Manager) -> dict[str, Any]:
    """All of them."""
    found: dict[str, Any] = {"ledger": manager.ledger.state(), "lots": manager.rng.bit_generator.state}
    if manager.auditor is not None:
        found["audits"] = {
            "account": str(manager.auditor.account),
            "lots": manager.auditor.rng.bit_generator.state,
            "measured": vars(manager.auditor.measured),
        }
    if hasattr(manager.policy, "state"):
        found["policy"] = [manager.policy.name, manager.policy.state()]
    return found


def given(manager: Manager, found: dict[str, Any]) -> None:
    """Back into a manager; what a policy of another name knew is of no use."""
    manager.ledger.restore(found["ledger"])
    manager.rng.bit_generator.state = found["lots"]
    if manager.auditor is not None and "audits" in found:
        manager.auditor.account = Fraction(found["audits"]["account"])
        manager.auditor.rng.bit_generator.state = found["audits"]["lots"]
        vars(manager.auditor.measured).update(found["audits"]["measured"])
    name, known = found.get("policy", ("", None))
    if name == manager.policy.name and hasattr(manager.policy, "restore"):
        manager.policy.restore(known)
