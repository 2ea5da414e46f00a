"""The command `psimlearn`: all its commands, and the handling of errors."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from psimlearn import __version__
from psimlearn.cli.completion import completion
from psimlearn.cli.demo import demo
from psimlearn.cli.evaluate import compare, evaluate
from psimlearn.cli.export import export
from psimlearn.cli.filter import filtering
from psimlearn.cli.fit import fit
from psimlearn.cli.forecast import forecast
from psimlearn.cli.impute import impute
from psimlearn.cli.info import info
from psimlearn.cli.options import say
from psimlearn.cli.reproduce import reproduce
from psimlearn.cli.send import send
from psimlearn.cli.serve import serve
from psimlearn.cli.signals import exit_code, unwinding
from psimlearn.errors import PsimlearnError

__all__ = ["cli"]


class Errors(click.Group):
    """Reports an error in one line on standard error and exits with code 2; --debug adds the traceback."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **others: Any) -> Any:
        """Run a command and exit."""
        given = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in given
        others |= {"standalone_mode": False, "args": [word for word in given if word != "--debug"]}
        with unwinding():
            sys.exit(_left(lambda: super(Errors, self).main(*rest, **others), debug))

    def make_context(self, *args: Any, **others: Any) -> click.Context:
        """Parse the words of a command line, and print help."""
        with _unseen_by_click():
            return super().make_context(*args, **others)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        with _unseen_by_click():
            return super().invoke(ctx)


class ReaderLeftError(Exception):
    """The reader of our output, such as head, has ended, which is no error."""


@contextmanager
def _unseen_by_click() -> Iterator[None]:
    """Click would exit with code 1 at a BrokenPipeError."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderLeftError from error


def _left(run: Callable[[], Any], debug: bool) -> int:
    """Run a command, report its error if there is one, and return the exit code."""
    try:
        code = run()
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort) as stop:
        cause = stop if isinstance(stop, KeyboardInterrupt) else stop.__cause__
        say(f"psimlearn: stopped; {' '.join(getattr(cause, '__notes__', ['nothing was written']))}.")
        return exit_code(cause)
    except (BrokenPipeError, ReaderLeftError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # drop the rest of the buffer
        return 0
    except click.UsageError as error:
        error.show()
        return 2
    except Exception as error:
        if debug:
            traceback.print_exc()
        say(f"psimlearn: {_in_one_line(error)}")
        return 2
    return code if isinstance(code, int) else 0


def _in_one_line(error: Exception) -> str:
    words = error.format_message() if isinstance(error, click.ClickException) else str(error)
    if not isinstance(error, PsimlearnError | click.ClickException):
        kind = type(error).__name__
        advice = {"MemoryError": "not enough memory. Use fewer or shorter recordings, or a smaller --window."}.get(
            kind
        ) or f"{words or 'no message'} ({kind}). Run it again with --debug to see where, and report it."
        words = advice
    return " ".join(words.split())


@click.group(cls=Errors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="psimlearn")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def cli() -> None:
    """Learn a filter from recordings, and use it.

    A filter takes one observation after the other, noisy and with gaps, and predicts the next ones with calibrated
    uncertainty. psimlearn learns it from recordings in CSV, Parquet or npz files: one row per time, one column per
    channel, empty cells where nothing was observed.

    \b
    Begin here:
      psimlearn demo                              try it on simulated recordings
      psimlearn fit walks.csv -o walks.psim       learn from your recordings
      psimlearn filter walks.psim new.csv         expectations and log-likelihood at every row
      tail -f sensor.csv | psimlearn filter walks.psim -    live, one answer per row

    An error ends with exit code 2 and one line that says what to do. Files are written whole or not at all, and never
    replaced without --force.
    """


COMMANDS = (demo, fit, info, filtering, forecast, impute, evaluate, compare, export, serve, send, reproduce, completion)
for _command in COMMANDS:
    cli.add_command(_command)
