"""Freshness analysis of a run directory or a journal, from answers, refreshes and changes alone.

One code, SQL text, for two engines: DuckDB in this process, and Spark where data outgrow it.
tables ─▶ headline: copies, judged answers, freshness ─▶ entries, refreshes, evaluations, spending ─▶ analysis
"""

from freshkeeper.maintenance.pipeline.analysis.analysis import analyse
from freshkeeper.maintenance.pipeline.analysis.engine_choice import chosen
from freshkeeper.maintenance.pipeline.analysis.journal_tables import AnalysisError

__all__ = ["AnalysisError", "analyse", "chosen"]
