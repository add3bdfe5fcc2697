"""Counts of what an enricher has done so far."""

from dataclasses import dataclass


@dataclass(eq=False)
class Counters:
    """Counts since the enricher was made, kept by the engine."""

    hits: int = 0
    misses: int = 0
    waited: int = 0
    requests: int = 0
    refreshed: int = 0
    changed: int = 0
    unchanged: int = 0
    failed: int = 0
    evicted: int = 0
    judged: int = 0
    """reads that were considered closely, and so count for `believed`"""
    believed: float = 0.0
    audited: int = 0
    audit_believed: float = 0.0
    audit_right: int = 0


@dataclass(frozen=True)
class Stats:
    """Numbers of an enricher so far, and the state of its budget.

    >>> from freshkeeper import Enricher
    >>> with Enricher(lambda keys: dict.fromkeys(keys, "row"), "5/s") as enricher:
    ...     rows = enricher.get_many(["a", "b", "a"])
    ...     stats = enricher.stats()
    >>> stats.hits, stats.misses, stats.requests
    (1, 2, 2)
    """

    hits: int
    """reads of rows that were in the cache"""
    misses: int
    waited: int
    """hits that waited for a fetch"""
    requests: int
    spent: float
    """cost units, failed requests included"""
    refreshed: int
    """rows that were fetched again"""
    changed: int
    """of them, rows that had changed"""
    unchanged: int
    """requests that the source answered with "not modified", such as 304"""
    failed: int
    """keys that could not be fetched, each time"""
    evicted: int
    rows: int
    """rows in the cache now"""
    in_flight: int
    """keys that are being fetched, or wait for it"""
    available: float
    """cost units that may be spent now"""
    price: float
    """how many right reads a request has to bring at the moment"""
    expected_freshness: float
    """the share of reads that is believed to have been right"""
    audited: int
    """reads whose row was checked at the source for the audit"""
    measured_freshness: float | None
    """the share of audited reads that was right; None without any"""
    paused: str | None
    """why the source takes no request now, if it does not"""
    store_away: str | None = None
    """why the store cannot be used now, if there is one and it cannot"""
