"""Freshness analysis of a run directory or a journal, from answers, refreshes and changes alone.

tables ─▶ answers judged slice by slice, in this process or in tasks of Spark ─▶ their sums ─▶ tables, by SQL on DuckDB
"""
