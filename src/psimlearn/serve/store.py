"""What must last, in one SQLite file: rows, states of streams, alarms. Many requests share one transaction."""

import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from psimlearn.errors import PsimlearnError

__all__ = ["Alarm", "Chunk", "Saved", "Store", "StoreError", "StoreFullError", "Writing"]

VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS streams (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS states (
  stream INTEGER PRIMARY KEY, n_rows INTEGER NOT NULL, model TEXT NOT NULL, state BLOB NOT NULL, times TEXT,
  seen REAL NOT NULL);
CREATE TABLE IF NOT EXISTS rows (
  number INTEGER PRIMARY KEY, stream INTEGER NOT NULL, first INTEGER NOT NULL, n INTEGER NOT NULL, seen REAL NOT NULL,
  numbers BLOB NOT NULL, answers BLOB NOT NULL, written TEXT, arrivals BLOB, times TEXT);
CREATE UNIQUE INDEX IF NOT EXISTS rows_of_stream ON rows (stream, first);
CREATE TABLE IF NOT EXISTS alarms (
  number INTEGER PRIMARY KEY, stream INTEGER NOT NULL, id TEXT NOT NULL, row INTEGER NOT NULL, began REAL NOT NULL,
  time TEXT, channel TEXT, log_likelihood REAL, ended REAL, last INTEGER, told INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS alarms_of_stream ON alarms (stream, ended);
"""
FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
"""Errors of a disk that takes no more; the last byte of an extended code."""


class StoreError(PsimlearnError):
    """The store could not be read or written."""


class StoreFullError(StoreError):
    """The disk takes no more."""


class Chunk(NamedTuple):
    """Rows of one stream that came in one request."""

    stream: int
    first: int
    """The number of rows that were taken before."""
    n: int
    seen: float
    """When the rows came, in seconds since 1970."""
    numbers: bytes
    answers: bytes
    """For the page: log-likelihood, expected observations, deviations and alarm of each row."""
    written: str | None
    """The times of the rows as they were written, as JSON; None without times."""
    arrivals: bytes | None
    """How many rows were missed before each row, -1 if a new recording begins; None if all are 0."""
    times: str | None
    """The times of the last rows, after these rows."""


class Saved(NamedTuple):
    """The state of a stream after some rows."""

    stream: int
    n_rows: int
    model: str
    state: bytes
    times: str | None
    seen: float


class Alarm(NamedTuple):
    """The begin of an alarm, or its end."""

    stream: int
    id: str
    row: int
    seen: float
    begins: bool
    time: Any
    channel: str | None
    log_likelihood: float


class Writing(NamedTuple):
    """All that one transaction writes."""

    streams: Sequence[tuple[int, str, float]]
    chunks: Sequence[Chunk]
    states: Sequence[Saved]
    alarms: Sequence[Alarm]


class Store:
    """The file. One thread writes and reads it."""

    def __init__(self, path: Path | str, durable: bool = True) -> None:
        try:
            self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._prepare(durable)
        except sqlite3.Error as error:
            raise StoreError(
                f"{path}: required a file of this server, or a place for one, received: {error}. Use --store."
            ) from error

    def _prepare(self, durable: bool) -> None:
        run = self.connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA auto_vacuum = INCREMENTAL")
        run("PRAGMA journal_mode = WAL")
        run(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        run("PRAGMA cache_size = -16000")
        run("PRAGMA wal_autocheckpoint = 4000")
        run("BEGIN IMMEDIATE")
        for statement in SCHEMA.split(";")[:-1]:
            run(statement)
        run("INSERT OR IGNORE INTO about VALUES ('version', ?)", (str(VERSION),))
        run("COMMIT")
        if self.about("version") != str(VERSION):
            raise StoreError(f"required a file of version {VERSION}, received {self.about('version')}. Use --store.")

    def about(self, name: str) -> str | None:
        """A note on the whole file."""
        return next((str(value) for (value,) in self._read("SELECT value FROM about WHERE name = ?", name)), None)

    def note(self, name: str, value: str) -> None:
        """Keep a note on the whole file."""
        self._all([("INSERT OR REPLACE INTO about VALUES (?, ?)", [(name, value)])])

    def last_key(self) -> int:
        """The largest key that any stream has had: another stream with it would own what the first one left."""
        tables = "SELECT key FROM streams UNION ALL SELECT stream FROM rows UNION ALL SELECT stream FROM states "
        tables += "UNION ALL SELECT stream FROM alarms UNION ALL SELECT value FROM about WHERE name = 'last_key'"
        return self._read(f"SELECT max(CAST(key AS INTEGER)) FROM ({tables})")[0][0] or 0

    def write(self, writing: Writing) -> None:
        """Write everything or nothing; when this returns, it lasts."""
        last_key = [("last_key", str(max(key for key, _, _ in writing.streams)))] if writing.streams else []
        begun = [a[:4] + a[5:] for a in writing.alarms if a.begins]
        ended = [(a.seen, a.row, a.stream) for a in writing.alarms if not a.begins]
        self._all(
            [
                ("INSERT INTO streams VALUES (?, ?, ?)", writing.streams),
                ("INSERT OR REPLACE INTO about VALUES (?, ?)", last_key),
                ("INSERT INTO rows VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)", writing.chunks),
                ("INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?, ?)", writing.states),
                (
                    "INSERT INTO alarms (stream, id, row, began, time, channel, log_likelihood) VALUES (?,?,?,?,?,?,?)",
                    begun,
                ),
                ("UPDATE alarms SET ended = ?, last = ? WHERE stream = ? AND ended IS NULL", ended),
            ]
        )

    def remove(self, stream: int) -> None:
        """Remove a stream with its rows; its alarms stay in the log, and end."""
        deletes = [(f"DELETE FROM {table} WHERE stream = ?", [(stream,)]) for table in ("rows", "states")]
        self._all([*deletes, ("DELETE FROM streams WHERE key = ?", [(stream,)]), _ended([stream])])

    def streams(self) -> list[tuple[int, str, float]]:
        """Key, id and time of creation of every stream."""
        return self._read("SELECT key, id, created FROM streams ORDER BY key")

    def state(self, stream: int) -> Saved | None:
        """The last state of a stream."""
        return next((Saved(*row) for row in self._read("SELECT * FROM states WHERE stream = ?", stream)), None)

    def chunks(self, stream: int, from_row: int) -> list[Chunk]:
        """The rows of a stream from the one with this number, in their order."""
        query = "SELECT stream, first, n, seen, numbers, answers, written, arrivals, times FROM rows WHERE stream = ? "
        return [Chunk(*row) for row in self._read(query + "AND first + n > ? ORDER BY first", stream, from_row)]

    def extent(self, stream: int) -> tuple[int, int, float | None]:
        """The first row that is left, the number of rows that were taken, and when the last one came."""
        query = "SELECT min(first), max(first + n), max(seen) FROM rows WHERE stream = ?"
        ((first, end, seen),) = self._read(query, stream)
        return first or 0, end or 0, seen

    def alarms(self, stream: int | None, before: int, limit: int) -> list[dict[str, Any]]:
        """The log of alarms, newest first."""
        where, values = ("AND stream = ?", (stream,)) if stream is not None else ("", ())
        names = ("number", "id", "row", "began", "time", "channel", "log_likelihood", "ended", "last")
        query = f"SELECT {', '.join(names)} FROM alarms WHERE number < ? {where} ORDER BY number DESC LIMIT ?"
        return [dict(zip(names, row, strict=True)) for row in self._read(query, before, *values, limit)]

    def end_alarms(self, streams: Iterable[int]) -> None:
        """End the alarms of some streams."""
        self._all([_ended(streams)])

    def untold(self) -> list[dict[str, Any]]:
        """Alarms whose command has not been run to its end yet, oldest first."""
        names = ("number", "id", "row", "began", "time", "channel", "log_likelihood")
        query = f"SELECT {', '.join(names)} FROM alarms WHERE told = 0 ORDER BY number LIMIT 1000"
        return [dict(zip(names, row, strict=True)) for row in self._read(query)]

    def tell(self, numbers: Iterable[int]) -> None:
        """Note that the command of alarms was run."""
        self._all([("UPDATE alarms SET told = 1 WHERE number = ?", [(number,) for number in numbers])])

    def size(self) -> int:
        """Bytes of the file that are in use."""
        pages, free, size = (self._read(f"PRAGMA {what}")[0][0] for what in PAGES)
        return int((pages - free) * size)

    def shrink(self, older_than: float) -> int:
        """Remove the oldest tenth of the rows, if they came before a time, but none that a state still needs."""
        ((first, last),) = self._read("SELECT min(number), max(number) FROM rows")
        at_once = min(((last or 0) - (first or 0)) // 10 + 1, MOST_REMOVED)
        old = "SELECT number FROM rows WHERE number IN (SELECT number FROM rows ORDER BY number LIMIT ?) AND seen < ? "
        needed = "AND first + n <= (SELECT n_rows FROM states WHERE states.stream = rows.stream)"
        before = self.connection.total_changes
        self._all([(f"DELETE FROM rows WHERE number IN ({old}{needed})", [(at_once, older_than)])])
        n_removed = self.connection.total_changes - before
        self._read("PRAGMA incremental_vacuum(1000)")
        return n_removed

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def _read(self, query: str, *values: Any) -> list[Any]:
        """All rows that a query finds."""
        try:
            return self.connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(
                f"required a store that can be read, received: {error}. Mend the file with sqlite3's .recover, or use "
                "another --store."
            ) from error

    def _all(self, work: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """One transaction."""
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            for statement, values in work:
                if values:
                    self.connection.executemany(statement, values)
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            kind = StoreFullError if getattr(error, "sqlite_errorcode", 0) & 0xFF in FULL else StoreError
            raise kind(f"required room to write, received: {error}.") from error

    def _roll_back(self) -> None:
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except sqlite3.Error:  # SQLite has rolled back by itself
            pass


def _ended(streams: Iterable[int]) -> tuple[str, Sequence[Any]]:
    """The work that ends the alarms of some streams."""
    now = time.time()
    return "UPDATE alarms SET ended = ? WHERE stream = ? AND ended IS NULL", [(now, stream) for stream in streams]


MOST_REMOVED = 2000
"""Stored requests that are removed in one transaction: rows that come must not wait long."""
PAGES = ("page_count", "freelist_count", "page_size")
