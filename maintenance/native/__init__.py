"""The columnar engine: ids instead of terms, windows as slots, joins of what is new (docs/engine.md)."""
