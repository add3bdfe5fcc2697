"""A round made of an evaluation of a journal: what a policy could have been asked there, for notebooks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.journal.journal import files
from freshkeeper.policies.base import Round
from freshkeeper.policies.rounds_by_hand import round_of

LIFE_WITHOUT_CHANGE = 1000
"""Evaluations after which an entry changes if the journal sees no further change of it."""
FIRST_RUN = """
    CREATE TABLE answers AS WITH run AS (
        SELECT setting, policy, seed FROM read_parquet($1, union_by_name = TRUE) WHERE $2 IN ('', setting)
        ORDER BY ALL LIMIT 1
    ) SELECT own.* REPLACE (coalesce(refreshed_ms, -1) AS refreshed_ms, coalesce(sn, sr) AS sn)
    FROM read_parquet($1, union_by_name = TRUE) AS own JOIN run USING (setting, policy, seed)"""
CHANGES = """
    CREATE TABLE changes AS SELECT DISTINCT sr, own.t_ms FROM read_parquet($1, union_by_name = TRUE) AS own
    JOIN (SELECT DISTINCT setting, seed FROM answers) USING (setting, seed)"""
JUDGED = """
    CREATE TABLE judged AS SELECT answers.*, coalesce(changes.t_ms <= answers.t_ms, FALSE) AS stale
    FROM answers ASOF LEFT JOIN changes ON answers.sr = changes.sr AND answers.refreshed_ms < changes.t_ms"""
STALEST = "ORDER BY sum(if(stale, weight, 0)) DESC, sum(weight) DESC, 1 LIMIT"
ROWS = f"""
    SELECT sn, sr, any_value(weight), max(refreshed_ms), bool_or(stale) FROM judged
    WHERE t_ms = $1 AND sr IN (SELECT sr FROM judged WHERE t_ms = $1 GROUP BY sr {STALEST} $2)
    GROUP BY sn, sr ORDER BY sn, sr"""
LATER = "SELECT sn, max(weight) FROM judged WHERE t_ms = $1 GROUP BY sn"
COMING = "SELECT sr, min(t_ms) FROM changes WHERE t_ms > $1 GROUP BY sr"


@dataclass(frozen=True, eq=False)
class RecordedRound:
    """A round with the names of its lookup keys and entries."""

    round: Round
    keys: Sequence[str]
    entries: Sequence[str]


def stalest_round(run: Path, setting: str = "", entries: int = 12) -> RecordedRound:
    """Return the evaluation with the most stale answers as a round: its stalest entries, and who needs them.

    Demand is of this evaluation and the next one; changes are those that changes.parquet tells.
    """
    with duckdb.connect() as database:
        answers = [str(file) for file in files(run / "answers.parquet")]
        if answers:
            database.execute(FIRST_RUN, [answers, setting])
        if not answers or not database.table("answers").limit(1).fetchall():
            raise InputError(f"{run} has no answers, so no round can be made of it")
        changes = [str(file) for file in files(run / "changes.parquet")]
        if changes:
            database.execute(CHANGES, [changes])
        else:
            database.execute("CREATE TABLE changes (sr VARCHAR, t_ms BIGINT)")
        database.execute(JUDGED)
        ((now,),) = database.sql(f"SELECT t_ms FROM judged GROUP BY t_ms {STALEST} 1").fetchall()
        ((after,),) = database.execute("SELECT min(t_ms) FROM judged WHERE t_ms > $1", [now]).fetchall()
        rows = database.execute(ROWS, [now, entries]).fetchall()
        later = dict(database.execute(LATER, [after]).fetchall())
        coming = dict(database.execute(COMING, [now]).fetchall())
    keys = list(dict.fromkeys(sn for sn, *_ in rows))
    names = list(dict.fromkeys(sr for _, sr, *_ in rows))
    counts = np.zeros((len(keys), 2))
    copied = np.zeros(len(names), np.int64)
    fresh = set(range(len(names)))
    edges = []
    for sn, sr, weight, refreshed_ms, stale in rows:
        key, entry = keys.index(sn), names.index(sr)
        edges.append((key, entry))
        counts[key] = weight, later.get(sn, 0)
        copied[entry] = refreshed_ms
        if stale:
            fresh.discard(entry)
    step = (after or now + 1) - now
    life = [-(-(coming[name] - now) // step) if name in coming else LIFE_WITHOUT_CHANGE for name in names]
    made = round_of(edges, counts.tolist(), life, fresh)
    return RecordedRound(replace(made, last_refresh=copied, now=now), keys, names)


def share_fresh(round: Round, chosen: Sequence[int]) -> float:
    """Return the share of the answers of a round, now and at the next evaluations, that are fresh after a choice."""
    fresh = round.fresh_if_kept.copy()
    fresh[list(chosen)] = round.fresh_if_refreshed[list(chosen)]
    return float((round.demand * fresh).sum() / round.demand.sum())
