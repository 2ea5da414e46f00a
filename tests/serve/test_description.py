"""The description of the API and the metrics agree with the server."""

import json
import re
from pathlib import Path

import pytest

from psimlearn.serve.api import Api
from psimlearn.serve.app import routes
from psimlearn.serve.openapi import openapi
from serving import recordings, saved, serving

pytestmark = pytest.mark.usefixtures("unchecked")


def test_every_request_is_described_and_every_description_is_a_request() -> None:
    api = Api(None, None)  # type: ignore[arg-type]
    there = {
        (route.path, method.lower())
        for route in routes(api)
        for method in (route.methods or set()) - {"HEAD"}
        if not route.path.startswith("/page/") and route.path not in ("/", "/openapi.json")
    }
    told = {(path, method) for path, methods in json.loads(openapi())["paths"].items() for method in methods}
    assert told == there


def test_metrics_count_what_happened(tmp_path: Path) -> None:
    with serving(saved(tmp_path)) as server:
        server.post("s", {"rows": recordings(1, 1, 12).values.tolist(), "at": 0})
        server.post("s", {"rows": recordings(1, 1, 15).values.tolist(), "at": 0})
        assert server.client.get("/nothing").status_code == 404
        text = server.client.get("/metrics").text
        for line in text.splitlines():
            assert re.fullmatch(r'# (HELP|TYPE) psimlearn_\w+ .+|psimlearn_\w+(\{\w+="[^"]+"\})? [0-9.e+-]+', line), (
                line
            )
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert values["psimlearn_rows_total"] == "15"
        assert values["psimlearn_rows_refused_total"] == "12"
        assert values['psimlearn_requests_total{status="404"}'] == "1"
        assert values["psimlearn_streams"] == "1"
        assert (
            int(values['psimlearn_write_seconds_bucket{le="+Inf"}'])
            == int(values["psimlearn_write_seconds_count"])
            == 2
        )
        assert int(values["psimlearn_store_bytes"]) > 4096
