"""What is asked of a registry, against one that answers from a list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.registry.client import RegistrySettings, latest
from tests.serving import Answer, Asked, http_server

_JSON = {"Content-Type": "application/json"}


@contextmanager
def registry(versions: list[dict[str, Any]]) -> Iterator[RegistrySettings]:
    """The last of the versions is the newest one of the subject `orders`."""

    def answer(question: Asked) -> Answer:
        if question.path.startswith("/subjects/orders/versions/latest"):
            return Answer(200, json.dumps(versions[-1]).encode(), _JSON)
        return Answer(404, json.dumps({"error_code": 40401, "message": "not found"}).encode(), _JSON)

    with http_server(answer) as port:
        yield RegistrySettings((("url", f"http://127.0.0.1:{port}"),))


def version(number: int) -> dict[str, Any]:
    return {"subject": "orders", "version": number, "id": number, "schema": '"long"'}


def test_the_newest_schema_is_asked_for_each_time() -> None:
    versions = [version(1)]
    with registry(versions) as settings:
        assert latest(settings, "orders").schema_id == 1
        versions.append(version(2))
        assert latest(settings, "orders").schema_id == 2
        with pytest.raises(SettingsError, match=r"has no subject others$"):
            latest(settings, "others")
