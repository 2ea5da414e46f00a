"""`psimlearn send`: rows from a pipe to a server."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import click

from psimlearn.cli import options

__all__ = ["send"]

AT_ONCE = 500
"""Rows of a request."""
LATER = (429, 503, 507)
"""Answers after which a request is sent again: the server is full, or its disk."""
TOO_MUCH = 413
"""The answer to rows that are too many for one request."""
LONGEST_PAUSE = 30.0
LARGEST = 2**63
"""Whole numbers of JSON that the server reads are smaller than this."""

Row = dict[str, Any]


@click.command()
@click.argument("url", metavar="URL")
@click.option("--stream", metavar="ID", help="The stream of all rows [default: the cell of each row in --id].")
@click.option("--id", "id", default="id", show_default=True, metavar="COLUMN", help="Column that names the stream.")
@click.option(
    "--header", metavar="A,B,..", callback=options.names, help="Names of the columns of CSV without a header."
)
@click.option("--horizons", default="1", show_default=True, help="Steps ahead to answer, such as 1,5,20.")
@click.option("--token-file", type=click.Path(path_type=Path), help="Token of writers [or PSIMLEARN_WRITE_TOKEN].")
@click.option("--quiet", is_flag=True, help="Do not print the answers.")
def send(url: str, stream: str | None, quiet: bool, **others: Any) -> int:
    """Send rows from standard input to a server, and print its answers as JSON lines.

    Rows are CSV with a header or JSON lines, as 'psimlearn filter MODEL -' takes them. Rows that are ready are sent
    together. While the server is away, or its disk is full, the rows wait here; a row is never counted twice.

    \b
    Examples:
      mosquitto_sub -t 'arm/#' | psimlearn send http://localhost:8765 --stream arm-1
      tail -f sensors.csv | psimlearn send http://localhost:8765 --id machine --quiet
    """
    from psimlearn.cli.filter import standard_input
    from psimlearn.cli.signals import exit_code
    from psimlearn.serve.tokens import read_token

    sender = Sender(url, read_token(others["token_file"], "PSIMLEARN_WRITE_TOKEN"), others["horizons"])
    try:
        for rows in _rows(standard_input(), others["header"]):
            for id, some in _by_stream(rows, stream, others["id"]).items():
                for begin in range(0, len(some), AT_ONCE):
                    answers = sender.sent(id, some[begin : begin + AT_ONCE])
                    if not quiet:
                        sys.stdout.writelines(json.dumps({"id": id, **answer}) + "\n" for answer in answers)
            sys.stdout.flush()
    except KeyboardInterrupt as stop:
        options.say("psimlearn: stopped.")
        return exit_code(stop)
    finally:
        sender.close()
    return 0


class Sender:
    """A connection to a server, which is opened again for as long as it takes."""

    def __init__(self, url: str, token: str | None, horizons: str) -> None:
        from http.client import HTTPConnection, HTTPSConnection
        from urllib.parse import urlsplit

        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise click.UsageError(f"URL: required an address such as http://localhost:8765, received {url!r}.")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self.connection = kind(parts.hostname, parts.port, timeout=60)
        self.base, self.horizons = parts.path.rstrip("/"), horizons
        self.headers = {"content-type": "application/json"}
        if token is not None:
            self.headers["authorization"] = f"Bearer {token}"
        self.n_taken: dict[str, int] = {}
        """The rows that each stream has, as far as this sender knows."""

    def sent(self, id: str, rows: Sequence[Row]) -> list[Row]:
        """The answers to rows of one stream; it waits while the server is away."""
        from urllib.parse import quote

        path = f"{self.base}/v1/streams/{quote(id, safe='')}"
        if id not in self.n_taken:
            status, told = self._patiently("GET", path)
            self.n_taken[id] = told["rows"] if status == 200 else 0
        body = {"rows": list(rows), "at": self.n_taken[id]}
        status, told = self._patiently("POST", f"{path}/rows?horizons={quote(self.horizons)}", body)
        if status == TOO_MUCH and len(rows) > 1:  # rows that were missed between them count, too
            half = len(rows) // 2
            return self.sent(id, rows[:half]) + self.sent(id, rows[half:])
        if status != 200:
            raise click.ClickException(f"{id}: required rows that the server takes, received: {_said(status, told)}")
        answers: list[Row] = told["rows"]
        self.n_taken[id] += sum("row" in answer or "was taken before" in answer["ignored"] for answer in answers)
        return answers

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _patiently(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the JSON of an answer; asked again while the server is away or full."""
        pause = 0.2
        while True:
            try:
                status, told = self._asked(method, path, body)
                if status not in LATER:
                    return status, told
                why = _said(status, told)
            except (OSError, ValueError) as error:
                self.connection.close()
                why = str(error) or type(error).__name__
            if pause > 1:
                options.say(f"psimlearn: the rows wait: {why}")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _asked(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        from http.client import HTTPException

        data = None if body is None else json.dumps(body).encode()
        try:
            self.connection.request(method, path, data, self.headers)
            answer = self.connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        except HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from error


def _said(status: int, told: Any) -> str:
    """The words of an error."""
    error = told.get("error", {}) if isinstance(told, dict) else {}
    return f"{status}: {error.get('message', 'no message')}"


def _rows(source: int, header: Sequence[str] | None) -> Iterator[list[Row]]:
    """The rows in lines that are ready; the first line with any content decides the form of all."""
    from psimlearn.cli.stream import batches, without_blank_start

    read: Callable[[str], Any] | None = None
    for ready in batches(source):
        lines: Sequence[str | None] = ready
        if read is None:
            lines, _ = without_blank_start(lines)
            if not lines:
                continue
            first = lines[0] or ""
            if first.lstrip().startswith("{"):
                read = _json
            else:
                read = _csv(first, header)
                lines = lines if header else lines[1:]
        found = [row for line in lines if line is not None and line.strip() and (row := _row(read, line)) is not None]
        if found:
            yield found


def _row(read: Callable[[str], Any], line: str) -> Row | None:
    """The row of a line; None, and a message, for a line that is no row."""
    from psimlearn.errors import DataError
    from psimlearn.recordings.cells import check_encoding

    try:
        check_encoding(line)
        row = read(line)
        if isinstance(row, dict):
            return row
        why: object = "no JSON object"
    except (ValueError, RecursionError, DataError) as error:
        why = error
    options.say(f"psimlearn: required a row, received {line[:80]!r} ({why}). Left out.")
    return None


def _json(line: str) -> Any:
    """A JSON line; NaN is null, and a number that is infinite or too large for the server goes on as text."""

    def constant(word: str) -> str | None:
        return None if word == "NaN" else word

    def fraction(text: str) -> float | str:
        return value if isfinite(value := float(text)) else text

    return json.loads(line, parse_constant=constant, parse_float=fraction, parse_int=_as_written)


def _csv(first_line: str, header: Sequence[str] | None) -> Callable[[str], Row]:
    """A reader of CSV lines."""
    from psimlearn.errors import DataError
    from psimlearn.recordings.cells import cells_of, header_of

    names, delimiter, _ = header_of(first_line, "standard input", header)

    def read(line: str) -> Row:
        cells = cells_of(line, delimiter)
        if len(cells) != len(names):
            raise DataError(f"required {len(names)} cells as in the header, received {len(cells)}.")
        return dict(zip(names, map(_as_written, cells), strict=True))

    return read


def _as_written(text: str) -> Any:
    """A cell so that JSON loses nothing: a number where JSON writes it as it is written here, null where it is empty.

    Every other cell stays text, because its column decides what it means: 007 is an id, a word or a number, and
    "true", "NA" and "inf" are no numbers in a column of words. The server knows the columns, and reads a text as a
    cell of CSV.
    """
    text = text.strip()
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if repr(value) == text and abs(value) < LARGEST:
            return value
    return text or None


def _by_stream(rows: Sequence[Row], stream: str | None, id: str) -> Mapping[str, list[Row]]:
    """Rows by their streams."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        name = stream if stream is not None else row.pop(id, None)
        if name is None:
            raise click.ClickException(
                f"required a column {id!r} that names the stream, or --stream, received neither."
            )
        found.setdefault(str(name), []).append(row)
    return found
