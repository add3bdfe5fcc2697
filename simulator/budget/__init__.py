"""The least budget for a target freshness, its cost, and what caches without a budget need."""
