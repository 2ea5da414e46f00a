"""The command line. It parses, calls and prints; libraries are imported by the commands that need them."""
