"""The probability that a cached row is still right, from the evidence there is. Pure Python, standard library only."""
