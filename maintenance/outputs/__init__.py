"""Where answers go beside standard output: topics, webhooks, files that rotate."""
