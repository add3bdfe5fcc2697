"""Freshness analysis of a run directory or a journal, from answers, refreshes and changes alone.

tables ─▶ answers judged slice by slice, in this process or in tasks of Spark ─▶ their sums ─▶ tables, by SQL on DuckDB
"""

from freshkeeper.maintenance.analysis.analysis import AnalysisError, analyse, headline_alone
from freshkeeper.maintenance.analysis.daily import analyse_daily
from freshkeeper.maintenance.analysis.engine_choice import chosen

__all__ = ["AnalysisError", "analyse", "analyse_daily", "chosen", "headline_alone"]
