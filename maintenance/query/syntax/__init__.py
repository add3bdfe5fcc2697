"""The syntax of queries: tokens, the continuous shell, the tree of the pattern, and the passes to the Query object."""
