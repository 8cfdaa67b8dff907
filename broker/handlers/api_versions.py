"""ApiVersions: v0-v5 (key 18)

Behaviour:
* Returns the table of highwater.kafka.protocol.apis; in a cluster also the APIs between brokers.
* The answer to an unsupported version is in version 0: UNSUPPORTED_VERSION and only the range of ApiVersions.
* Client telemetry is left out where highwater.client.telemetry=false, so that no client asks for it.
* From v3 on: the features that this broker supports, those that are finalised, and their epoch (KIP-584).

Versions:
* v3 brings the client's software name and version, which must have a valid form (KIP-511), and at most 256 characters:
  the broker keeps them with the connection, and writes them beside what the client measures.
* v4 allows features whose least level is 0 (KIP-1022). Older clients cannot read one (KAFKA-17011).
* v5 brings the cluster and the broker that the client looks for (KIP-1242), both or none: INVALID_REQUEST for only one,
  REBOOTSTRAP_REQUIRED where they are others, as an address may be another broker's by now.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.features import Features, Range
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.common.log_lines import bounded
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import API_VERSIONS, APIS, CLUSTER_APIS, TELEMETRY_APIS, Api

_logger = logging.getLogger(__name__)

_ANY_NODE: Final = -1
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]{0,254}[a-zA-Z0-9])?")


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if request is None:
        return _answer(ErrorCode.unsupported_version, (APIS[API_VERSIONS],))
    if context.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return _answer(ErrorCode.invalid_request, ())
    if context.version >= 5 and (request.cluster_id is not None or request.node_id != _ANY_NODE):
        if request.cluster_id is None or request.node_id == _ANY_NODE:
            return _answer(ErrorCode.invalid_request, ())
        cluster_id = node.cluster.cluster_id
        if (request.cluster_id, request.node_id) != (cluster_id, node.broker_id):
            _logger.info(
                "a client at %s looks for broker %d of cluster %s, but this is broker %d of cluster %s: it has to "
                "rebootstrap; if this comes again and again, a proxy or a port forward leads to the wrong broker",
                context.client.host,
                request.node_id,
                bounded(repr(request.cluster_id)),
                node.broker_id,
                cluster_id,
            )
            return _answer(ErrorCode.rebootstrap_required, ())
    if context.version >= 3:
        # Thousands of connections have the same few texts.
        context.client.software_name = sys.intern(request.client_software_name)
        context.client.software_version = sys.intern(request.client_software_version)
    return [_encoded(context.version, node.member is not None, node.telemetry.is_on, *_told(node.features))]


_Supported = tuple[tuple[str, Range], ...]
_Levels = tuple[tuple[str, int], ...]


def _told(features: Features) -> tuple[_Supported, int, _Levels]:
    """What clients learn of the features, as a value that can be a key."""
    epoch, levels = features.finalised
    return tuple(sorted(features.supported.items())), epoch, tuple(sorted(levels.items()))


@lru_cache(maxsize=16)
def _encoded(
    version: int, is_member: bool, takes_telemetry: bool, supported: _Supported, epoch: int, levels: _Levels
) -> bytes:
    apis = sorted((*APIS.values(), *CLUSTER_APIS.values())) if is_member else APIS.values()
    if not takes_telemetry:
        apis = [api for api in apis if api.key not in TELEMETRY_APIS]
    answer = _answer(ErrorCode.none, apis) | {
        "supported_features": [
            {"name": name, "min_version": lowest, "max_version": highest}
            for name, (lowest, highest) in supported
            if version >= 4 or lowest > 0
        ],
        "finalized_features_epoch": epoch,
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level} for name, level in levels
        ],
    }
    return cold.encode_response("api_versions", version, answer)


def _answer(error_code: ErrorCode, apis: Iterable[Api]) -> cold.Answer:
    return {
        "error_code": error_code,
        "api_keys": [
            {"api_key": api.key, "min_version": api.min_version, "max_version": api.max_version} for api in apis
        ],
    }
