"""Learners: each takes examples and returns a regressor."""
