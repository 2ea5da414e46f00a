"""Errors of requests, all in one JSON shape."""

from typing import Any

from starlette.responses import JSONResponse, Response

from psimlearn.errors import DataError, DivergedError, PsimlearnError
from psimlearn.serve.store import StoreError, StoreFullError
from psimlearn.serve.streams import LimitError, TooMuchError

__all__ = ["RefusedError", "error_response", "refusal"]

CODES = {
    400: "bad_request",
    401: "no_token",
    403: "forbidden",
    404: "not_found",
    405: "bad_method",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    421: "wrong_host",
    422: "not_computable",
    429: "limit",
    500: "internal",
    503: "store",
    507: "disk_full",
}


class RefusedError(Exception):
    """A request that is refused with a status and a reason."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


def refusal(error: PsimlearnError) -> RefusedError:
    """The refusal that an error means."""
    kinds: list[tuple[type[PsimlearnError], int]] = [
        (StoreFullError, 507),
        (StoreError, 503),
        (TooMuchError, 413),
        (LimitError, 429),
        (DivergedError, 422),
        (DataError, 400),
    ]
    status = next((status for kind, status in kinds if isinstance(error, kind)), 400)
    return RefusedError(status, str(error))


def error_response(
    status: int, message: str, headers: dict[str, str] | None = None, code: str | None = None
) -> Response:
    """The answer to a refused request: {"error": {"status": .., "code": .., "message": ..}}."""
    error: dict[str, Any] = {"status": status, "code": code or CODES.get(status, "error"), "message": message}
    return JSONResponse({"error": error}, status, headers)
