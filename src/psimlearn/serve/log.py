"""The log: one JSON object a line on standard error. Headers and queries, which may hold tokens, stay out."""

import json
import logging
import sys
import time
import traceback
from typing import Any

__all__ = ["log", "log_libraries"]


def log(event: str, **facts: Any) -> None:
    """Write one line."""
    noted = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event, **facts}
    print(json.dumps(noted, default=str), file=sys.stderr, flush=True)


def log_libraries() -> None:
    """Let what libraries and Python warn of stand in the log, too."""
    logging.basicConfig(handlers=[_Lines()], level=logging.WARNING, force=True)
    logging.captureWarnings(True)


class _Lines(logging.Handler):
    """Writes records of `logging` as lines of the log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        facts = {"from": record.name, "level": record.levelname.lower(), "message": record.getMessage()[:2000]}
        if record.exc_info:
            facts["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        log("library", **facts)
