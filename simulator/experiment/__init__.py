"""Experiments: their configs, their runs over processes, run directories, comparisons and checks."""
