"""The verbs of the command line, one file each; wiring only."""
