"""What windows need now and later: counts per lookup key, the maintenance graph, and rounds built from both."""
