"""`python -m psimlearn` is the command `psimlearn`."""

from psimlearn.cli.main import cli

if __name__ == "__main__":
    cli(prog_name="psimlearn")
