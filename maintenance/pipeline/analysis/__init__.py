"""Freshness analysis of a run directory or a journal, from answers, refreshes and changes alone.

tables ─▶ on_spark: copies, judged answers, headline ─▶ entries, refreshes, evaluations, spending ─▶ analysis
"""

from freshkeeper.maintenance.pipeline.analysis.analysis import Analysis, analyse, analysed
from freshkeeper.maintenance.pipeline.analysis.journal_tables import AnalysisError

__all__ = ["Analysis", "AnalysisError", "analyse", "analysed"]
