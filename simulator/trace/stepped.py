"""A trace with a jump in the rate of changes and a later one in the load, for a controller to follow."""

from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ids, Ints
from freshkeeper.simulator.trace.file_tables import Labels
from freshkeeper.simulator.trace.trace import Changes, Edges, Trace, TraceArrivals


@dataclass(frozen=True)
class SteppedWorkload:
    """Poisson changes and arrivals; at two instants entries change, and keys come, so many times as often."""

    end_ms: int = 900_000
    changes_at_ms: int = 300_000
    faster: float = 2.5
    load_at_ms: int = 600_000
    busier: float = 3.0
    sns: int = 30
    srs: int = 60
    edges: int = 60
    change_interval_ms: tuple[int, int] = (20_000, 120_000)
    arrival_interval_ms: tuple[int, int] = (1_000, 6_000)


def stepped(steps: SteppedWorkload, seed: int) -> Trace:
    """Draw the trace of a seed, which begins with an arrival at 0."""
    rng = np.random.default_rng([seed, 77])
    mean = rng.uniform(*steps.change_interval_ms, size=steps.srs)
    changes = _jumping(rng, mean, steps.changes_at_ms, steps.end_ms, steps.faster)
    mean = rng.uniform(*steps.arrival_interval_ms, size=steps.sns)
    at, sn = _jumping(rng, mean, steps.load_at_ms, steps.end_ms, steps.busier)
    order = np.argsort(at, kind="stable")
    arrivals = TraceArrivals(np.append(0, at[order]), np.append(np.int32(0), sn[order]))
    drawn = rng.permutation(steps.sns * steps.srs)[: steps.edges]
    edges = Edges((drawn // steps.srs).astype(np.int32), (drawn % steps.srs).astype(np.int32))
    return Trace(arrivals, edges, Changes.in_order(*changes), _labels(steps.sns), _labels(steps.srs))


def _labels(count: int) -> Labels:
    return np.array([str(n) for n in range(count)], object)


def _jumping(rng: np.random.Generator, mean: Floats, jump: int, end: int, factor: float) -> tuple[Ints, Ids]:
    """Instants of Poisson processes with these mean intervals, after the jump so many times as dense, and whose."""
    at, whose = [], []
    for begin, stop, times in ((0, jump, 1.0), (jump, end, factor)):
        counts = rng.poisson((stop - begin) * times / mean)
        at.append(rng.uniform(begin, stop, int(counts.sum())).astype(np.int64))
        whose.append(np.repeat(np.arange(mean.size, dtype=np.int32), counts))
    return np.concatenate(at), np.concatenate(whose)
