"""The HTTP client: pooled connections, deadlines, decompression limits and cache validators."""
