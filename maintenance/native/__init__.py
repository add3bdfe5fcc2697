"""The native engine: elements as columns of ids, queries as joins of integers."""
