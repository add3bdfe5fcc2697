"""One policy over one task, evaluation by evaluation, without a journal: what a search for a budget runs many times."""

import numpy as np

from freshkeeper.simulator.experiment.experiment_config import PolicySettings
from freshkeeper.simulator.experiment.point import EvaluationSeries
from freshkeeper.simulator.experiment.task import Task


def played(task: Task, chosen: PolicySettings) -> EvaluationSeries:
    """Run the policy in the simulated world."""
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
