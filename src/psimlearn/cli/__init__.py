"""The command line. It parses, calls and prints; each command imports the libraries it needs."""
