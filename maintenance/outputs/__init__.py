"""Receivers of answers: standard output, files, topics and webhooks, and the formats of results."""
