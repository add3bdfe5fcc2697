"""The journal: Parquet tables and a run.json, one format for production and simulations."""
