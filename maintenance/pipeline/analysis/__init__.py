"""Freshness analysis of a run directory or a journal, from answers, refreshes and changes alone.

tables ─▶ what is known of changes and evaluations ─▶ answers judged, in this process or on Spark ─▶ SQL over their sums
"""

from freshkeeper.maintenance.pipeline.analysis.analysis import analyse
from freshkeeper.maintenance.pipeline.analysis.daily import analyse_daily
from freshkeeper.maintenance.pipeline.analysis.engine_choice import chosen
from freshkeeper.maintenance.pipeline.analysis.journal_tables import AnalysisError

__all__ = ["AnalysisError", "analyse", "analyse_daily", "chosen"]
