"""The query language: text to Query object and back, the dialects, and the split of SERVICE patterns."""
