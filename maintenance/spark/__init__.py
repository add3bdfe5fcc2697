"""Streaming enrichment on Spark."""
