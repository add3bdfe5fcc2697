"""Things that every package uses: errors, durations, YAML, addresses, files, arrays and RDF terms."""
