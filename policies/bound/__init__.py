"""Upper bounds on the headline, given the trace: no policy that keeps within the budget can be fresher.

What they take for granted: one refresh makes one SR fresh and costs at least its `cost`. Fetches that fail, caches
that evict and changes that are not known only lower what a policy reaches; but where one request brings several SRs (a
batch, all of a missing SN), `cost` must be what an SR costs at the least, or the bound does not hold.
"""

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.policies.base import Case
from freshkeeper.policies.bound.aggregates import RELAXED_BELOW, aggregate_bound
from freshkeeper.policies.bound.edges import EXACT_BELOW, Bound, edge_bound
from freshkeeper.policies.bound.future import Future


def upper_bound(future: Future, case: Case, exact_below: int | None = None) -> Bound:
    """Return the bound for a case: of edges exact or nearly so, of aggregates that of a relaxation, without a schedule.

    `exact_below` limits the size of a program (`EXACT_BELOW` steps, `RELAXED_BELOW` inputs): smaller is quicker and
    looser. Compare with a tolerance of 1e−9: freshness is a sum of fractions.
    """
    if exact_below is not None and exact_below < 1:
        raise ConfigError(f"exact_below is {exact_below}; right would be the size of a program, from 1 up")
    if case is Case.BGP:
        return edge_bound(future, exact_below or EXACT_BELOW)
    return aggregate_bound(future, exact_below or RELAXED_BELOW)
