"""Triple and quad pattern fragments: pages with Hydra controls, the client that asks for them, and the server."""
