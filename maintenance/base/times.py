"""Times as integers: milliseconds since the epoch."""

UNKNOWN = -(2**62)
"""A time that the source did not state."""
DISTANT_PAST = -(2**62)
"""Before every time that can occur."""
DISTANT_FUTURE = 2**62
"""After every time that can occur. Half the range of int64, so that adding a duration cannot overflow."""
