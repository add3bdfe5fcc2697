"""The tables of an analysis in memory, and how those that were left on disk are read."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pyarrow import parquet

DIGEST = "analysis.json"
FORMAT = 2
"""Of analysis.json. A page reads what an earlier version left only where the format is the same."""
CLOSE = 1e-9
NOTHING_ANSWERED = "Nothing was answered: no evaluation that counts has answers whose freshness is known"
DATES_FROM_MS = 365 * 86_400_000
"""A run whose instants are all later than this has dates; earlier instants are offsets."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Analysis:
    """The tables of an analysis in memory, by name, and what they cannot tell."""

    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    missing: Sequence[str] = ()
    """a sentence for each table or column that is missing, and what cannot be told without it"""
    remarks: Sequence[str] = ()
    """what a reader of the headline has to know"""

    def rows(self, name: str, setting: str, policy: str) -> list[Row]:
        """Return the rows of one table that are of one setting and policy; none where there is no such table."""
        return self._rows_by_pair[name, setting, policy]

    @cached_property
    def _rows_by_pair(self) -> Mapping[tuple[str, str, str], list[Row]]:
        rows: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
        for name, table in self.tables.items():
            for row in table:
                rows[name, row["setting"], row["policy"]].append(row)
        return rows


def left_analysis(run: Path, target: float | None = None) -> Analysis | None:
    """Return what `freshkeeper analyse` left in a run; None if there is nothing, or of another run or target."""
    file = run / "analysis" / DIGEST
    if not file.exists() or file.stat().st_mtime < max(table.stat().st_mtime for table in run.glob("*.parquet")):
        return None
    digest: dict[str, Any] = json.loads(file.read_text("utf-8"))
    if digest.get("format") != FORMAT or target not in (None, digest["target"]):
        return None
    tables = {name: rows for name, rows in digest.items() if isinstance(rows, list) and name != "cannot_tell"}
    lines = file.parent / "timeline.parquet" / "part-0.parquet"
    if lines.exists():
        tables["timeline"] = parquet.read_table(lines, partitioning=None).to_pylist()
    remarks = list(remarks_on(tables))
    return Analysis(tables, [note for note in digest["cannot_tell"] if note not in remarks], remarks)


def remarks_on(tables: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Yield what a reader of the headline has to know."""
    rows = tables.get("freshness", ())
    audited = {_series(row): row for row in tables.get("audits", ())}
    if not rows:
        yield f"{NOTHING_ANSWERED}, so there is no freshness."
    untrue: dict[str, list[str]] = {}
    for row in rows:
        whose = " ".join(word for word in (row["setting"], row["policy"]) if word) or "the run"
        if row["basis"] == "audited":
            share = audited[_series(row)]
            yield (
                f"The freshness of {whose} is an estimate from {share['audits']} audited answers: with 95 % confidence "
                f"between {share['low']:.4f} and {share['high']:.4f}."
            )
        elif row["basis"] != "truth":
            untrue.setdefault(row["basis"], []).append(whose)
        elif row["reported"] is not None and abs(row["reported"] - row["freshness"]) > CLOSE:
            yield f"The engine reported {row['reported']:.4f} for {whose}; the truth is {row['freshness']:.4f}."
    for basis, all_of in untrue.items():
        whose = all_of[0] if len(all_of) == 1 else f"{len(all_of)} of {len(rows)} settings and policies"
        yield f"The freshness of {whose} is not the truth but what was {basis} by the engine."


def _series(row: Row) -> tuple[object, ...]:
    return tuple(row[word] for word in ("setting", "policy", "case", "knowledge"))
