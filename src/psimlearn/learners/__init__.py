"""Examples in, a regressor out."""
