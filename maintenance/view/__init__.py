"""The local view: columns, misses, eviction, and what is known of changes."""
