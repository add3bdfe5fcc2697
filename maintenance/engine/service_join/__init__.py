"""Joins SERVICE patterns with windows, from the cached view or the source; every answer has its freshness."""
