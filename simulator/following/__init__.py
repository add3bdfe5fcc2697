"""Experiments of paper 004: ways to annotate, and the cost of following for servers and clients."""
