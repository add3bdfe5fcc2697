"""Runs of continuous queries: configuration, query sets, sessions, restarts and the Python entry points."""
