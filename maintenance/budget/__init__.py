"""What may be spent: the ledger, budgets that several views share, audits, and the check of a policy's selection."""
