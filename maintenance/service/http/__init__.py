"""HTTP to sources: bounded exchanges, credentials, validators, and the protocols spoken over them."""
