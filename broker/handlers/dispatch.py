"""From a request's frame to the buffers of its answer, by way of the table of APIs. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from broker.handlers.reply import Deferred, Listener, Reply, RequestContext
from broker.node import Node
from broker.protocol import cold
from broker.protocol.apis import API_VERSIONS, APIS, Api
from broker.protocol.frame import Part, Parts, frame_response, read_request_header
from broker.protocol.primitives import Decoder, MalformedRequestError

Decode = Callable[[Decoder, int], Any]
Handle = Callable[[Node, RequestContext, Any], Reply]


class _Handler(NamedTuple):
    api: Api
    decode: Decode
    handle: Handle


class PendingResponse(NamedTuple):
    """An answer to come, and how to make it a frame."""

    deferred: Deferred
    frame: Callable[[Parts], list[Part]]


class Dispatcher:
    """Answers the requests of every connection of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._handlers: dict[int, _Handler] = {}

    def dispatch(
        self, frame: memoryview, listener: Listener, client_host: str = ""
    ) -> list[Part] | PendingResponse | None:
        """The answer to one request as the buffers to write; None for a request that gets no answer.

        Raises MalformedRequestError for bytes that are no request this broker knows, and CloseConnection; any other
        exception is a bug of ours. The frame may be overwritten once this returns.
        """
        header = read_request_header(frame)
        handler = self._handlers.get(header.api_key) or self._load(header.api_key)
        api = handler.api
        version = header.api_version
        if not api.serves(version):
            if api.key != API_VERSIONS:
                raise MalformedRequestError(f"{api.name} version {version} is not served")
            # KIP-511: a client that is newer than we are learns our range from an answer in the oldest format.
            context = RequestContext(0, header.client_id, listener)
            reply = handler.handle(self._node, context, None)
            return self._respond(handler, context, header.correlation_id, reply)
        decoder = Decoder(frame, header.body_position, flexible=api.is_flexible(version))
        decoder.skip_tags()
        request = handler.decode(decoder, version)
        context = RequestContext(version, header.client_id, listener, client_host)
        reply = handler.handle(self._node, context, request)
        return self._respond(handler, context, header.correlation_id, reply)

    def _respond(
        self, handler: _Handler, context: RequestContext, correlation_id: int, reply: Reply
    ) -> list[Part] | PendingResponse | None:
        if reply is None:
            return None
        # The header of an ApiVersions answer never has tags: the client cannot know yet what we understand (KIP-511).
        flexible_header = handler.api.is_flexible(context.version) and handler.api.key != API_VERSIONS
        if isinstance(reply, Deferred):
            return PendingResponse(reply, partial(frame_response, correlation_id, flexible_header=flexible_header))
        if isinstance(reply, dict):
            reply = [cold.encode_response(handler.api.name, context.version, reply)]
        return frame_response(correlation_id, reply, flexible_header=flexible_header)

    def _load(self, api_key: int) -> _Handler:
        api = APIS.get(api_key)
        if api is None:
            raise MalformedRequestError(f"there is no API {api_key} here")
        module = import_module(f"broker.handlers.{api.name}")
        decode: Decode = getattr(module, "decode", None) or partial(_decode_cold, api.name)
        handler = self._handlers[api_key] = _Handler(api, decode, module.handle)
        return handler


def _decode_cold(name: str, decoder: Decoder, version: int) -> Any:
    return cold.decode_request(name, version, decoder)
