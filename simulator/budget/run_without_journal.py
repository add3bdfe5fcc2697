"""Runs of one policy over one task without a journal, which a search for a budget repeats many times."""

import numpy as np

from freshkeeper.simulator.experiment.experiment_config import PolicySettings
from freshkeeper.simulator.experiment.point import EvaluationSeries
from freshkeeper.simulator.experiment.task import Task


def run_without_journal(task: Task, chosen: PolicySettings) -> EvaluationSeries:
    """Run a policy in the simulated world, and return requests and freshness per evaluation."""
    policy = chosen.make()
    if hasattr(policy, "foresee"):
        policy.foresee(task.future)
    world, truth = task.world(policy)
    manager, arrivals, sns = world.manager, task.trace, task.trace.sns
    rows = []
    for evaluation in world.run():
        k = evaluation.record.k
        since = manager.window.instant(k - 1) if k > 1 else -1
        came = np.bincount(arrivals.arrivals_between(since, evaluation.record.t_ms).sn, minlength=sns)
        new = np.minimum(came[truth.numbers(manager, evaluation)], evaluation.counts)
        whole, part = truth.weigh(manager, evaluation, evaluation.counts, new)
        rows.append((float(evaluation.record.requests), *whole, *part))
    manager.ledger.check()
    return EvaluationSeries.of(rows)
