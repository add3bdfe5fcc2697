"""TTL and refresh-ahead caches beside the policies: their requests and freshness follow from the reads of a trace."""
