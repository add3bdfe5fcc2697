"""Events enriched by key from a source that somebody else owns: a cache of rows, kept fresh within a budget."""
