"""From text to the query object: tokens, the continuous shell, SPARQL's own part, and names resolved."""
