"""The cache for windows: manager, maintenance graph, view and budget (the bipartite cache of paper 002)."""
