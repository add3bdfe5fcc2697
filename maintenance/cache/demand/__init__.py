"""The demand of windows, now and later: counts per lookup key, and the maintenance graph."""
