"""The continuous query engine: streams, windows, the evaluation of one instant, and answers with their freshness."""
