"""What budget a target of freshness needs, what it costs, and what a cache without a budget would."""
