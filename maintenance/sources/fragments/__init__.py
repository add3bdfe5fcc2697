"""The client for triple and quad pattern fragments."""
