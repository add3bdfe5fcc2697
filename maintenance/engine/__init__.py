"""The window-join engine: windows, evaluation instants, relation-to-stream operators and query results."""
