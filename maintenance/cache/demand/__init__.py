"""What windows need now and later: counts per lookup key, and the maintenance graph."""
