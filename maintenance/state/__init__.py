"""State that survives a restart: a directory that is read before the first evaluation and written at every one."""
