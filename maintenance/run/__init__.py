"""A run put together: its config, its session, and queries inside Python programs."""
