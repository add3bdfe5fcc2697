"""Enrichment on Spark: `enrich` appends the row of each event's key, `enrich_windows` joins windows with a view.

from freshkeeper.spark import enrich

events.transform(enrich(on="product_id", into="product", lookup=make_lookup, schema="name STRING", budget="500/s"))
"""

from freshkeeper.maintenance.spark.by_key import enrich, metrics
from freshkeeper.maintenance.spark.enrich import Files, OnCluster, Warm, enrich_windows, read_journal

__all__ = ["Files", "OnCluster", "Warm", "enrich", "enrich_windows", "metrics", "read_journal"]
