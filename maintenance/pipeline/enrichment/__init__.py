"""The parts of `enrich`: counting arrivals, evaluating, keeping state through kills, asking once, writing answers."""
