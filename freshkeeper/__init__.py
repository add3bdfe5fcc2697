"""The public face: the names that people import, and the `freshkeeper` command."""
