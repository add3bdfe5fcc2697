"""The part of py4j that this project uses; py4j ships no types of its own."""
