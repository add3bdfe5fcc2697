"""What is seen from outside while a query runs: metrics and logs."""
