"""Ready-made lookups: tables in SQL, Redis, JSON over HTTP, SPARQL; and whole tables enriched at once."""
