"""Each API has a row in the table of what it demands; what is forgotten would be closed, and is found here."""

from __future__ import annotations

from highwater.broker.handlers.authorization.table import GUARDS
from highwater.kafka.protocol.apis import APIS, CLUSTER_APIS


def test_each_api_has_a_row_and_no_row_is_without_an_api() -> None:
    assert set(GUARDS) == {api.name for api in (*APIS.values(), *CLUSTER_APIS.values())}
