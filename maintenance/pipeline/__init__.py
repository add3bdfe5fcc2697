"""Everything that runs on Spark; the rest of freshkeeper works without it."""
