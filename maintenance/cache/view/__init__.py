"""The local view and its change models: cached entries, and the probability that each is still right."""
