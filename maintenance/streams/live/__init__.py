"""Streams over a network: connections that come and go, and where each goes on."""
