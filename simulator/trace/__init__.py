"""Traces: read, written, converted, described, generated, recorded."""
