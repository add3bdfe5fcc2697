"""The syntax of queries: tokens, positions in the text, the tree of the pattern, and the check by pyoxigraph."""
