"""The command line. It parses, calls and prints; libraries are imported by the commands that need them."""

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended, by convention."""
