"""The description of the API, in OpenAPI 3.1."""

import json
from importlib.metadata import version
from typing import Any

__all__ = ["openapi"]

ID = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}$"},
}
CELL = {"type": ["number", "string", "null"], "description": "null: not observed"}
ROW = {
    "oneOf": [
        {"type": "array", "items": CELL, "description": "cells in the order of `columns` of /v1/model"},
        {"type": "object", "additionalProperties": CELL, "description": "cells by name, and perhaps a time"},
    ]
}
TIMES = {"type": "array", "items": {"type": ["number", "string", "null"]}}
ROWS = {"type": "array", "items": ROW}
BATCH = {
    "oneOf": [
        ROW,
        ROWS,
        {
            "type": "object",
            "required": ["rows"],
            "properties": {
                "rows": ROWS,
                "times": TIMES,
                "at": {"type": "integer", "description": "rows taken before: rows sent twice are then ignored"},
            },
        },
    ]
}
MANY = {
    "type": "object",
    "required": ["rows"],
    "properties": {"rows": ROWS, "times": TIMES, "ids": {"type": "array", "items": {"type": "string"}}},
}
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["status", "code", "message"],
            "properties": {
                "status": {"type": "integer"},
                "code": {"type": "string"},
                "message": {"type": "string"},
            },
        }
    },
}


def openapi() -> str:
    """The description as JSON."""
    horizons = _query("horizons", "steps ahead to answer, such as 1,5,20", "string")
    stream, rows = "/v1/streams/{id}", "rows: one answer for each row, in their order"
    paths = {
        stream: {
            "put": _operation("Make a stream, unless it exists.", 201, ids=True, writes=True),
            "get": _operation("The state of a stream.", ids=True),
            "delete": _operation("Remove a stream and its rows.", 204, ids=True, writes=True),
        },
        f"{stream}/rows": {
            "post": _operation(f"Take rows. {rows}", ids=True, body=BATCH, given=[horizons], writes=True),
            "get": _operation(
                "The last rows with the answers that they had.", ids=True, given=[_query("last", "how many")]
            ),
        },
        f"{stream}/forecast": {"get": _operation("The next rows.", ids=True, given=[_query("steps", "how many")])},
        f"{stream}/alarms": {
            "get": _operation("The alarms of a stream, newest first.", ids=True, given=_paging("before"))
        },
        f"{stream}/events": {"get": _operation("Server-sent events: rows, alarm.", ids=True, kind="text/event-stream")},
        "/v1/rows": {
            "post": _operation(f"Take rows of many streams. {rows}", body=MANY, given=[horizons], writes=True)
        },
        "/v1/streams": {
            "get": _operation("All streams.", given=[*_paging("offset"), _query("q", "part of the id", "string")])
        },
        "/v1/alarms": {"get": _operation("The log of alarms, newest first.", given=_paging("before"))},
        "/v1/events": {
            "get": _operation(
                "Server-sent events of all streams: moved, alarm, created, deleted, model.", kind="text/event-stream"
            )
        },
        "/v1/model": {"get": _operation("The columns, the window and the alarms of the model.")},
        "/v1/model/reload": {"post": _operation("Read the model file again.", writes=True)},
        "/metrics": {"get": _operation("Metrics for Prometheus.", kind="text/plain")},
        "/healthz": {"get": _operation("Whether the process lives.")},
        "/readyz": {"get": _operation("Whether rows can be taken.")},
    }
    about = {"title": "psimlearn serve", "version": version("psimlearn")}
    parts = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": {"Error": ERROR}}
    return json.dumps({"openapi": "3.1.0", "info": about, "paths": paths, "components": parts})


def _operation(
    summary: str,
    status: int = 200,
    ids: bool = False,
    body: Any = None,
    given: Any = (),
    kind: str = "application/json",
    writes: bool = False,
) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": summary} | ({} if status == 204 else {"content": {kind: {}}})
    error = {
        "description": "refused",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    out: dict[str, Any] = {"summary": summary, "responses": {str(status): answer, "default": error}}
    out |= {"parameters": [*([ID] if ids else []), *given], "security": [{"token": []}]}
    if body is not None:
        out["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return out | ({"tags": ["write"]} if writes else {"tags": ["read"]})


def _query(name: str, description: str, kind: str = "integer") -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": {"type": kind}}


def _paging(place: str) -> list[dict[str, Any]]:
    return [_query(place, "where to begin"), _query("limit", "how many at most")]
