"""Decodes a request's frame, calls the handler of its API and encodes the answer. Sans-IO.

After its start in a cluster, a broker delays answers about topics and brokers until it has the controller's metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from kio.schema.errors import ErrorCode

from highwater.broker.counters import RequestCounters
from highwater.broker.handlers.authorization.access import access_of
from highwater.broker.handlers.shared.reply import (
    Answered,
    Client,
    CloseConnection,
    Deferred,
    PendingResponse,
    Reply,
    RequestContext,
    answer_and_hang_up,
    answer_of,
)
from highwater.broker.node import Node
from highwater.kafka.arrays import again_paced
from highwater.kafka.pacing import FEW_ITEMS, LongRequestError, give_way, paced, used_ns
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import (
    API_VERSIONS,
    APIS,
    CLUSTER_APIS,
    FETCH,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    WRITE_TXN_MARKERS,
    Api,
)
from highwater.kafka.protocol.frame import Part, Parts, RequestHeader, frame_response, read_request_header
from highwater.kafka.protocol.primitives import MAX_BYTES, Decoder, MalformedRequestError, TooManyItemsError

if TYPE_CHECKING:
    from highwater.broker.cluster.metadata import MetadataCache
    from highwater.broker.handlers.produce_run import ProduceRuns

Decode = Callable[[Decoder, int], Any]
Handle = Callable[[Node, RequestContext, Any], Reply]


_NEED_THE_CLUSTER: Final = frozenset(
    (
        "metadata",
        "offset_commit",
        "offset_fetch",
        "find_coordinator",
        "delete_topics",
        "add_partitions_to_txn",
        "txn_offset_commit",
        "describe_configs",
        "describe_cluster",
        "list_config_resources",
        "describe_topic_partitions",
    )
)
"""APIs that would return errors about topics and brokers that the broker does not know yet."""


UNTIMED: Final = frozenset((SASL_HANDSHAKE, SASL_AUTHENTICATE, WRITE_TXN_MARKERS, *CLUSTER_APIS))
"""APIs whose time no quota limits: brokers need each other, and a login comes before there is a user (KIP-124)."""
_HOT: Final = frozenset((PRODUCE, FETCH))


class _Handler(NamedTuple):
    api: Api
    decode: Decode
    handle: Handle
    counters: RequestCounters
    is_timed: bool
    """Whether a quota may limit the time of these requests."""
    is_hot: bool
    """Whether requests with few items are handled without a stack of their own."""


class Dispatcher:
    """Answers the requests of every connection of one node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._node = node
        self._quotas = node.quotas
        self._monotonic_ns = node.clock.monotonic_ns
        self._handlers: dict[int, _Handler] = {}
        self._produce_runs: ProduceRuns | None = None

    def import_handlers(self) -> Iterator[None]:
        """Import one handler after the other, so that no later request waits for that, or fails without descriptors."""
        for api_key in (*APIS, *(CLUSTER_APIS if self._node.member is not None else ())):
            if api_key not in self._handlers:
                self._load(api_key)
                yield

    def dispatch(
        self,
        frame: memoryview,
        client: Client,
        received_ns: int | None = None,
    ) -> list[Part] | PendingResponse | None:
        """Return the answer to one request as the buffers to write; None for a request without an answer.

        `received_ns` is the clock's monotonic time when the frame was there.
        Raises MalformedRequestError for bytes that are no request this broker knows, and CloseConnection; any other
        exception is a bug of ours. The frame may be overwritten once this returns.
        """
        started_ns = self._monotonic_ns()
        if received_ns is None:
            received_ns = started_ns
        authentication = client.authentication
        if authentication is not None and authentication.takes_bare_tokens:
            return self._take_bare_token(frame, client)
        header = read_request_header(frame)
        if authentication is not None:
            refusal = authentication.refusal(header.api_key, started_ns // 1_000_000)
            if refusal is not None:
                raise CloseConnection(refusal)
        handler = self._handlers.get(header.api_key) or self._load(header.api_key)
        api = handler.api
        version = header.api_version
        if not api.serves(version):
            if api.key != API_VERSIONS:
                raise MalformedRequestError(f"{api.name} version {version} is not served")
            # KIP-511: a newer client learns the supported range from an answer in the oldest format.
            context = RequestContext(0, header.client_id, client)
            reply = handler.handle(self._node, context, None)
            return self._respond(handler, context, header.correlation_id, reply, received_ns)
        if handler.is_hot and not self._quotas.limits_requests:
            try:
                request = _decoded(handler, header, frame, FEW_ITEMS)
                context = RequestContext(version, header.client_id, client, len(frame))
                reply = handler.handle(self._node, context, request)
            except (TooManyItemsError, LongRequestError):
                pass  # Nothing was done yet.
            else:
                handled_ns = self._monotonic_ns()
                handler.counters.handled(version, received_ns, started_ns, handled_ns, not isinstance(reply, Deferred))
                return self._respond(handler, context, header.correlation_id, reply, received_ns)
        return _Long(self, handler, header, client, frame, received_ns, started_ns).begin()

    def take_run(
        self, buffer: memoryview, start: int, end: int, most_frame_bytes: int, client: Client, received_ns: int
    ) -> tuple[int, list[Part] | PendingResponse] | None:
        """Do what `ProduceRuns.take` does. To be asked before `dispatch`, which gets each request that is left."""
        if self._produce_runs is None:
            return None  # Nothing of Produce is imported yet.
        return self._produce_runs.take(buffer, start, end, most_frame_bytes, client, received_ns)

    def monotonic_ns(self) -> int:
        return self._monotonic_ns()

    def throttle(self, context: RequestContext) -> None:
        self._node.counters.request_throttle_ms += context.throttle_ms
        context.client.mute(context.throttle_ms)

    def _take_bare_token(self, frame: memoryview, client: Client) -> list[Part] | PendingResponse:
        # Here, as most brokers have no listener with SASL.
        outcome = import_module("highwater.broker.handlers.sasl_authenticate").take_token(
            self._node, client, bytes(frame)
        )
        if outcome.error_code:
            # There is no way to send the client the reason, but it waits for that as others do.
            assert client.authentication is not None
            delay_ms = client.authentication.settings.failure_delay_ms
            reason = outcome.error_message or outcome.error_code.name
            deferred = answer_and_hang_up(client, {}, reason, delay_ms, self._node.scheduler)
            return PendingResponse(deferred, lambda _: [])
        return [len(outcome.auth_bytes).to_bytes(4, "big"), outcome.auth_bytes]

    def _respond(
        self, handler: _Handler, context: RequestContext, correlation_id: int, reply: Reply, received_ns: int
    ) -> list[Part] | PendingResponse | None:
        if reply is None:
            return None
        if not isinstance(reply, Deferred):
            return self.frame(handler, context, correlation_id, reply)

        def frame(answer: Answered) -> list[Part]:
            handler.counters.total.observe(self._monotonic_ns() - received_ns)
            return self.frame(handler, context, correlation_id, answer_of(answer))

        return PendingResponse(reply, frame, reply.keeps_frame)

    def frame(
        self, handler: _Handler, context: RequestContext, correlation_id: int, answer: Parts | cold.Answer
    ) -> list[Part]:
        if context.throttle_ms:
            self.throttle(context)
            if isinstance(answer, dict):
                answer["throttle_time"] = max(answer.get("throttle_time", 0), context.throttle_ms)
        return _frame(handler, context.version, correlation_id, answer)

    def _load(self, api_key: int) -> _Handler:
        member = self._node.member
        api = APIS.get(api_key) or (None if member is None else CLUSTER_APIS.get(api_key))
        if api is None:
            raise MalformedRequestError(f"there is no API {api_key} here")
        module = import_module(f"highwater.broker.handlers.{api.name}")
        decode: Decode = getattr(module, "decode", None) or partial(_decode_cold, api.name)
        counters = self._node.counters.requests[api_key]
        handle = _watched(self._node, api.name, counters.name, module.handle)
        handler = _Handler(api, decode, handle, counters, is_timed=api_key not in UNTIMED, is_hot=api_key in _HOT)
        if api.name in _NEED_THE_CLUSTER and member is not None and not member.metadata.is_complete:
            return handler._replace(handle=partial(_handle_when_complete, member.metadata, handle))
        self._handlers[api_key] = handler
        if api_key == PRODUCE:
            self._produce_runs = import_module("highwater.broker.handlers.produce_run").ProduceRuns(self._node)
        return handler


def _decoded(handler: _Handler, header: RequestHeader, frame: memoryview, items_max: int) -> Any:
    flexible = handler.api.is_flexible(header.api_version)
    decoder = Decoder(frame, header.body_position, flexible=flexible, items_max=items_max, bytes_max=MAX_BYTES)
    decoder.skip_tags()
    return handler.decode(decoder, header.api_version)


class _Long:
    """A request that may take long: it is decoded, handled and answered in turns."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        handler: _Handler,
        header: RequestHeader,
        client: Client,
        frame: memoryview,
        received_ns: int,
        started_ns: int,
    ) -> None:
        self._dispatcher = dispatcher
        self._node = dispatcher.node
        self._handler = handler
        self._header = header
        self._client = client
        self._frame = frame
        self._received_ns = received_ns
        self._started_ns = started_ns
        self._context = RequestContext(header.api_version, header.client_id, client, len(frame))
        self._later: Deferred | None = None
        """The answer, once `begin` has returned without it."""
        self._pending: Deferred | None = None
        """What the handler waits for."""
        self._owner = object()
        self._is_cancelled = False
        self._is_done = False
        self._parts: list[Part] | None = None
        self._error: Exception | None = None

    def begin(self) -> list[Part] | PendingResponse | None:
        """Return what `Dispatcher.dispatch` returns, and raise what it raises."""
        self._node.turns.run(self._handle, self._owner)
        if self._is_done:
            return self._result()
        later = self._later = Deferred()
        later.on_cancel = self._cancel
        later.holds_line = self._pending is None or self._pending.holds_line
        return PendingResponse(
            later, lambda _: self._result() or [], keeps_frame=self._pending is None or self._pending.keeps_frame
        )

    def _result(self) -> list[Part] | None:
        error, self._error = self._error, None  # Its traceback refers to this object.
        try:
            if error is not None:
                raise error
            return self._parts
        finally:
            del error  # Its traceback refers to this call too: such a circle would keep the frame in memory.

    def _cancel(self) -> None:
        """The client has left. What was begun is done, as Kafka does it."""
        self._is_cancelled = True
        if self._pending is not None:
            self._pending.cancel()

    def _handle(self) -> None:
        try:
            request = _decoded(self._handler, self._header, self._frame, self._handler.api.items_max)
            if self._is_cancelled:
                return
            self._take(request)
        except Exception as error:
            self._end(None, error)

    def _take(self, request: Any) -> None:
        handler, dispatcher, node = self._handler, self._dispatcher, self._node
        quotas, user, client_id = node.quotas, self._client.principal, self._header.client_id
        is_timed = quotas.limits_requests and handler.is_timed and not _is_of_a_follower(handler.api, request)
        began_ms = self._started_ns // 1_000_000
        if is_timed:
            throttle_ms = quotas.request_throttle_ms(user, client_id, began_ms)
            self._context.throttle_ms = throttle_ms
        context = self._context
        reply = handler.handle(node, context, request)
        is_answered = not isinstance(reply, Deferred)
        handler.counters.handled(
            context.version, self._received_ns, self._started_ns, dispatcher.monotonic_ns(), is_answered
        )
        if isinstance(reply, Deferred):
            self._wait_for(reply)
        elif reply is None:
            if context.throttle_ms:
                dispatcher.throttle(context)
            self._end(None, None)
        else:
            parts = dispatcher.frame(handler, context, self._header.correlation_id, reply)
            del reply
            give_way()
            self._end(parts, None)
        if is_timed:
            quotas.handled(user, client_id, used_ns(), began_ms)

    def _wait_for(self, reply: Deferred) -> None:
        if self._is_cancelled and reply.answer is None:
            reply.cancel()
            return
        self._pending = reply
        if self._later is not None and not reply.holds_line:
            self._later.free_line()
        reply.on_ready(self._ready)

    def _ready(self, answer: Answered) -> None:
        self._node.turns.run(partial(self._encode, answer), self._owner)

    def _encode(self, answer: Answered) -> None:
        handler = self._handler
        try:
            parts = self._dispatcher.frame(handler, self._context, self._header.correlation_id, answer_of(answer))
        except Exception as error:
            self._end(None, error)
            return
        handler.counters.total.observe(self._dispatcher.monotonic_ns() - self._received_ns)
        give_way()
        self._end(parts, None)

    def _end(self, parts: list[Part] | None, error: Exception | None) -> None:
        self._parts, self._error, self._is_done = parts, error, True
        if self._later is not None:
            self._later.complete(parts or [])


def _is_of_a_follower(api: Api, request: Any) -> bool:
    return api.key == FETCH and request.replica_id >= 0


def _watched(node: Node, name: str, request_name: str, handle: Handle) -> Handle:
    """The handler with what stands before and after it, as far as that is configured."""
    if node.acls is not None:
        handle = _guarded(name, request_name, handle)
    elif node.inside_listener is not None:
        inside = import_module("highwater.broker.handlers.authorization.inside")
        if name in inside.INSIDE:
            handle = _only_inside(inside.guarded, name, request_name, handle)
    if node.audit is not None:
        changes = import_module("highwater.broker.handlers.authorization.changes")
        if name in changes.CHANGES:
            handle = changes.recorded(node.audit, name, request_name, handle)
    return handle


def _only_inside(guard: Callable[..., Reply], name: str, request_name: str, handle: Handle) -> Handle:
    def guarded(node: Node, context: RequestContext, request: Any) -> Reply:
        return guard(name, node, context, request_name, request, lambda left: handle(node, context, again_paced(left)))

    return guarded


def _guarded(name: str, request_name: str, handle: Handle) -> Handle:
    """What an API demands of the client, before its handler."""
    guards = import_module("highwater.broker.handlers.authorization.table").GUARDS
    guard = guards[name]
    if guard is None:
        return handle

    def guarded(node: Node, context: RequestContext, request: Any) -> Reply:
        access = access_of(node, context, request_name)
        assert access is not None
        if request is None:
            return handle(node, context, request)  # ApiVersions of a version that is not known
        return cast(Reply, guard(access, request, lambda left: handle(node, context, again_paced(left))))

    return guarded


def _handle_when_complete(
    cluster: MetadataCache, handle: Handle, node: Node, context: RequestContext, request: Any
) -> Reply:
    deferred = Deferred()

    def look() -> None:
        if not cluster.is_complete:
            return
        end()
        node.turns.run(answer, answer)

    def answer() -> None:
        reply = handle(node, context, request)
        if isinstance(reply, Deferred):
            deferred.on_cancel = reply.cancel
            reply.on_ready(deferred.complete)
        else:
            assert reply is not None, "only produce requests have no answer"
            deferred.complete(reply)

    end = deferred.on_cancel = cluster.when_changed(look)
    return deferred


def _frame(handler: _Handler, version: int, correlation_id: int, answer: Parts | cold.Answer) -> list[Part]:
    api = handler.api
    if isinstance(answer, dict):
        for error_code in _error_codes(answer):
            handler.counters.failed(error_code)
        answer = [cold.encode_response(api.name, version, answer)]
    # The header of an ApiVersions answer never has tags: the client does not know the broker's versions yet (KIP-511).
    flexible_header = api.is_flexible(version) and api.key != API_VERSIONS
    return frame_response(correlation_id, answer, flexible_header=flexible_header)


def _error_codes(answer: Any) -> Iterator[ErrorCode]:
    """Yield all error codes in an answer."""
    if isinstance(answer, dict):
        if answer.get("error_code"):
            yield answer["error_code"]
        answer = answer.values()
    elif not isinstance(answer, list | tuple):
        return
    for value in paced(answer):
        if isinstance(value, dict | list | tuple):
            yield from _error_codes(value)


def _decode_cold(name: str, decoder: Decoder, version: int) -> Any:
    return cold.decode_request(name, version, decoder)
