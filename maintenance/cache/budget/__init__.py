"""Budgets: the ledger, targets, shared budgets, audits, and checks of what a policy selects."""
