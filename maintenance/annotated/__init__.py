"""Linked data annotated with how long it holds (paper 004): queries that follow it, and servers of fragments."""
