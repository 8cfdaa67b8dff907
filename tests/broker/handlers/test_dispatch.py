"""What the dispatcher has before the first request comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.broker.handlers import dispatch
from highwater.kafka.protocol.apis import APIS, CLUSTER_APIS
from tests.broker.handlers.harness import NodeHarness, request_frame


def test_no_handler_is_imported_on_the_way_of_a_request(
    make_node: Callable[..., NodeHarness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import takes a descriptor, and there may be none left."""
    broker = make_node()
    for _ in broker.dispatcher.import_handlers():
        pass

    def imported(name: str) -> None:
        raise AssertionError(f"{name} is imported for a request")

    monkeypatch.setattr(dispatch, "import_module", imported)
    assert broker.dispatcher._handlers.keys() == APIS.keys() - CLUSTER_APIS.keys()
    assert broker.send(request_frame("api_versions", 0))
    assert broker.send(request_frame("metadata", 1, topics=[]))
