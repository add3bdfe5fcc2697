"""The simulated world: a stream that arrives, a remote that changes, the truth about both."""
