"""Requests to sources: the source interface, prices, batches, back-off, rate limits and circuit breakers."""
