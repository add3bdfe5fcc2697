"""Parts of the enrichment on Spark: micro-batches, shards and their files."""
