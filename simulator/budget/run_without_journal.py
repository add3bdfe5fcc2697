"""Runs of one policy over one task without a journal, which a search for a budget repeats many times."""

from freshkeeper.simulator.experiment.experiment_config import PolicySettings
from freshkeeper.simulator.experiment.point import EvaluationSeries
from freshkeeper.simulator.experiment.task import Task


def run_without_journal(task: Task, chosen: PolicySettings) -> EvaluationSeries:
    """Run a policy in the simulated world, and return requests and freshness per evaluation."""
    policy = chosen.make()
    if hasattr(policy, "foresee"):
        policy.foresee(task.future)
    world, truth = task.world(policy)
    rows = []
    for evaluation in world.run():
        rows.append((float(evaluation.record.requests), *truth.measure(world.manager, evaluation)))
    world.manager.ledger.check()
    return EvaluationSeries.of(rows)
