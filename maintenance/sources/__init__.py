"""Sources of background data: SPARQL, JSON over HTTP, fragments, embedded data."""
