"""What a service reads by itself, and where its answers go by themselves."""
