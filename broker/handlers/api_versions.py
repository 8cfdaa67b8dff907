"""ApiVersions: v0-v4 (key 18)

Behaviour:
* Returns the table of highwater.kafka.protocol.apis; in a cluster also the APIs between brokers.
* The answer to an unsupported version is in version 0: UNSUPPORTED_VERSION and only the range of ApiVersions.
* Returns no finalised features: transaction.version would make clients use a protocol that is not here (KIP-890).

Versions:
* v3 brings the client's software name and version, which must have a valid form (KIP-511).
* v4 allows features whose least version is 0 (KIP-1022); there are none here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import API_VERSIONS, APIS, CLUSTER_APIS, Api

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if request is None:
        return _answer(ErrorCode.unsupported_version, (APIS[API_VERSIONS],))
    if context.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return _answer(ErrorCode.invalid_request, ())
    return [_encoded(context.version, node.member is not None)]


@cache
def _encoded(version: int, is_member: bool) -> bytes:
    apis = sorted((*APIS.values(), *CLUSTER_APIS.values())) if is_member else APIS.values()
    return cold.encode_response("api_versions", version, _answer(ErrorCode.none, apis))


def _answer(error_code: ErrorCode, apis: Iterable[Api]) -> cold.Answer:
    return {
        "error_code": error_code,
        "api_keys": [
            {"api_key": api.key, "min_version": api.min_version, "max_version": api.max_version} for api in apis
        ],
    }
