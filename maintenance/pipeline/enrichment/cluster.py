"""The parts put together for a graph that stays on the cluster."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from freshkeeper.maintenance.budget.ledger import Ledger
from freshkeeper.maintenance.budget.selection import check_handles
from freshkeeper.maintenance.demand.round_builder import LONGEST_HORIZON
from freshkeeper.maintenance.pipeline.enrichment import impact
from freshkeeper.maintenance.pipeline.enrichment.batch_store import Store
from freshkeeper.maintenance.pipeline.enrichment.due import Due
from freshkeeper.maintenance.pipeline.enrichment.enrichment_settings import Settings
from freshkeeper.maintenance.pipeline.enrichment.micro_batches import Batches, State, Step, Write
from freshkeeper.maintenance.pipeline.enrichment.on_driver import Shape
from freshkeeper.maintenance.pipeline.enrichment.on_executors import OnSpark, Tables
from freshkeeper.maintenance.pipeline.enrichment.once import Once
from freshkeeper.maintenance.pipeline.enrichment.touched import Touched
from freshkeeper.maintenance.pipeline.enrichment.window_parts import WindowParts
from freshkeeper.maintenance.service.endpoint import Endpoint, Remote
from freshkeeper.policies.base import Case
from freshkeeper.policies.errors import ConfigError


def on_the_cluster(
    settings: Settings,
    source: Endpoint | Remote,
    place: Path,
    shape: Shape,
    write: Write[DataFrame],
    reached: Callable[[str], None],
    parts: WindowParts,
) -> Batches[DataFrame]:
    """Evaluations as Spark plans; the driver's state in `place`, the window's in `parts`."""
    impact.scoring(settings.policy)
    check_handles(settings.policy, settings.case, settings.model.knowledge)
    tables = _tables(settings, shape, parts)
    once, journal = Once(source, reached), settings.journal(place)
    horizon = max(1, min(LONGEST_HORIZON, settings.window.span * settings.policy.reach))
    key = to_arrow_type(tables.edges.schema["sr"].dataType)

    def begin() -> State[DataFrame]:
        policy, model = copy.deepcopy((settings.policy, settings.model))
        ledger = Ledger(settings.budget, overdraft=not policy.honest)
        touched, rng = Touched(model, key, shape.value), np.random.default_rng(settings.seed)
        keeper = OnSpark(settings.window, policy, ledger, touched, tables, once, horizon, rng)
        return State(Due(settings.window, settings.delay), keeper)

    def both(steps: Sequence[Step[DataFrame]], batch: int) -> None:
        journal.write(steps, batch)
        write(steps, batch)

    return Batches(Store(place, {"source": once, "tables": tables}), once, begin, both, reached)


def _tables(settings: Settings, shape: Shape, parts: WindowParts) -> Tables:
    if settings.case is not Case.BGP or settings.warm is None:
        raise ConfigError("a graph on Spark needs a warm start, and case bgp")
    knowledge = impact.columns_of(settings.model)
    edges, copies = settings.warm.frames(parts.spark, shape.on, knowledge.needs)
    written = copies.withColumn("value", F.col("value").cast(from_arrow_type(shape.value)))
    return Tables(shape.on, edges, written, settings.warm.at, parts)
