"""What settings are written in: durations, YAML files, and one line for each mistake."""
