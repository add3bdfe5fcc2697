"""The RSP-QL engine: window contents, the evaluation of one instant, R2S, output."""
