"""What the audits of a journal say of its answers."""

from freshkeeper.maintenance.budget.audit import Measured
from freshkeeper.maintenance.journal import journal
from freshkeeper.simulator.experiment.run_directory import Run
from freshkeeper.simulator.report.scores import Score


def audited(run: Run, score: Score) -> Measured | None:
    """What the audits of the evaluations that count say, where the truth is not known."""
    table = journal.read(run.path, "audits") if score.expected else None
    if table is None:
        return None
    rows = run.evaluations.rows(run.evaluations.series.index(score.series))
    counted = set(run.evaluations.t_ms[rows][run.evaluations.counted[rows]].tolist())
    columns = (table[name].to_pylist() for name in ("policy", "setting", "t_ms", "fresh"))
    fresh = [
        verdict
        for policy, setting, t, verdict in zip(*columns, strict=True)
        if (policy, setting) == (score.series.policy, score.series.setting) and t in counted
    ]
    return Measured(fresh.count(True), len(fresh) - fresh.count(None), fresh.count(None))
