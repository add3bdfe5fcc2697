"""Connectors of a service: streams that it reads by itself, and outputs that its answers go to."""
