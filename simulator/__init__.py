"""The simulated world: workloads, traces, experiments, bounds and reports."""
