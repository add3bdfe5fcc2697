"""Streams over a network: connections that are lost and resumed."""
