"""Monitoring of a running query: metrics, logs and traces."""
