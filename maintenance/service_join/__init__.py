"""SERVICE joined with windows: from the view or from the source itself, every answer with its freshness."""
