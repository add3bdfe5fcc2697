"""SERVICE clauses joined with windows, from the view or from the source, with the freshness of each answer."""
