"""A service: queries come and go, elements are pushed, answers are subscribed to."""
