"""What a run keeps over a restart: one directory per query, read before the first evaluation, written at every one."""
