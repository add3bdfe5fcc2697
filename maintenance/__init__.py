"""The running system: windows, local view, maintenance graph, budgets, sources; one evaluation from end to end."""
