"""The part of pytest-xdist that this project uses; it ships no types of its own."""
