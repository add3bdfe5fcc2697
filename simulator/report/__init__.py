"""The freshness report: one offline HTML page per run directory; `page` makes it, the other files are its parts."""
