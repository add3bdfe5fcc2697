"""The columnar evaluator: terms as ids, stream elements as columns, joins by difference."""
