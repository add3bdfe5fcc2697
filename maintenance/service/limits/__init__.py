"""What keeps requests within bounds: rates, Retry-After, the circuit breaker."""
