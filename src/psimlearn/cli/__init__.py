"""The command line. It parses, calls and prints; each command imports the libraries it needs."""

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended, by convention."""
