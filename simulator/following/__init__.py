"""Experiments of paper 004: ways to annotate, and what following costs servers and clients."""
