"""One safe model file, written whole or not at all."""
