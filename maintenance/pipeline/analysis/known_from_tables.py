"""Changes, evaluations and choices of a run as the sorted numbers that answers are judged by."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshkeeper.maintenance.pipeline.analysis.analysis_database import Database
from freshkeeper.maintenance.pipeline.analysis.journal_tables import Tables
from freshkeeper.maintenance.pipeline.analysis.known import Known, coded, grouped, numbered
from freshkeeper.policies.arrays import Ints

CHANGES = "SELECT setting, seed, sr, t_ms FROM own_changes WHERE sr IS NOT NULL AND t_ms IS NOT NULL"
EVALUATIONS = """
    SELECT setting, policy, seed, moment, NOT bool_and(warmup) AS counts FROM evaluations
    WHERE moment IS NOT NULL GROUP BY setting, policy, seed, moment"""
CHOSEN = """
    SELECT DISTINCT setting, policy, seed, moment, sr FROM refreshes WHERE moment IS NOT NULL AND sr IS NOT NULL"""
RUN = {"setting": "text", "policy": "text", "seed": "bigint", "moment": "bigint"}
EVALUATED, ASKED = RUN | {"counts": "boolean"}, RUN | {"sr": "text"}
CASES = """SELECT setting, policy, max("case") AS "case" FROM evaluations GROUP BY setting, policy"""


def known(database: Database, tables: Tables) -> Known:
    """Of a run in which answers can be judged."""
    changes = database.columns(CHANGES)
    evaluated = database.columns(EVALUATIONS if "evaluations" in tables.there else _none(EVALUATED))
    chosen = database.columns(CHOSEN if "refreshes" in tables.there else _none(ASKED))
    both = [evaluated, chosen]
    runs = _numbered(["setting", "policy", "seed"], both)
    worlds = _numbered(["setting", "seed"], [changes])
    moments = np.unique(np.concatenate([table["moment"].to_numpy() for table in both]))
    entries = pa.chunked_array([*changes["sr"].chunks, *chosen["sr"].chunks], pa.string()).unique()
    times = np.unique(changes["t_ms"].to_numpy())
    at, asked = (
        _whose(table, runs) * moments.size + np.searchsorted(moments, table["moment"].to_numpy()) for table in both
    )
    changed = (_whose(changes, worlds) * len(entries) + _places(changes["sr"], entries)) * (times.size + 1)
    order = np.argsort(at)
    return Known(
        entries=entries, worlds=worlds, runs=runs, moments=moments, times=times,
        changes=np.sort(changed + np.searchsorted(times, changes["t_ms"].to_numpy())),
        evaluations=at[order] if "evaluations" in tables.there else None,
        counts=evaluated["counts"].to_numpy()[order],
        chosen=np.sort(asked * len(entries) + _places(chosen["sr"], entries)),
        cases=_cases(database) if tables.caseless else {},
        lookup_keys="sn" in tables.answers, unnamed=tables.unnamed,
    )  # fmt: skip


def _none(columns: Mapping[str, str]) -> str:
    return f"SELECT {', '.join(f'cast(NULL AS {kind}) AS {name}' for name, kind in columns.items())} WHERE FALSE"


def _numbered(names: list[str], tables: Sequence[pa.Table]) -> dict[tuple[Any, ...], int]:
    """Every combination that there is; they are few."""
    apart = [row for table in tables for row in table.select(names).group_by(names).aggregate([]).to_pylist()]
    return {whose: at for at, whose in enumerate(dict.fromkeys(tuple(row.values()) for row in apart))}


def _whose(table: pa.Table, numbers: dict[tuple[Any, ...], int]) -> Ints:
    """By which of these every row is."""
    names = ["setting", "policy", "seed"] if "policy" in table.column_names else ["setting", "seed"]
    words = {name: coded(table[name]) for name in names if name != "seed"}
    columns = [words[name][0] if name in words else table[name].to_numpy() for name in names]
    first, group = grouped(*columns)
    rows = table.select(names).take(pa.array(first)).to_pylist()
    return np.array([numbers[tuple(row.values())] for row in rows], np.int64)[group]


def _places(column: pa.ChunkedArray, entries: pa.Array) -> Ints:
    codes, words = coded(column)
    return numbered(pc.index_in(words, value_set=entries))[codes]


def _cases(database: Database) -> dict[tuple[str, str], str]:
    return {(row["setting"], row["policy"]): row["case"] for row in database.rows(CASES)}
