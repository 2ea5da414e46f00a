"""The log: one JSON object a line on standard error. Headers and queries, which may hold tokens, stay out."""

import json
import sys
import time
from typing import Any

__all__ = ["log"]


def log(event: str, **facts: Any) -> None:
    """Write one line."""
    noted = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event, **facts}
    print(json.dumps(noted, default=str), file=sys.stderr, flush=True)
