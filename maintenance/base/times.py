"""Times as integers: milliseconds since the epoch."""

UNKNOWN = -(2**62)
"""A time that the source did not state."""
