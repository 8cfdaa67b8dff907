"""One request to a broker and its answer as values: versions, headers, bytes out, bytes in. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import API_VERSIONS, APIS, Api
from highwater.kafka.protocol.primitives import Decoder, MalformedRequestError

Answer = TypeVar("Answer")
Versions = Mapping[int, tuple[int, int]]
"""API key → the lowest and the highest version that a broker serves."""

_OF_KAFKA_ALONE: Final = (Api(55, "describe_quorum", 0, 2, 0),)
"""APIs that our broker does not serve, and other brokers do."""
_APIS: Final = {api.name: api for api in (*APIS.values(), *_OF_KAFKA_ALONE)}
_HEADER: Final = struct.Struct(">hhi")
_STRING_LENGTH: Final = struct.Struct(">h")
_LENGTH: Final = struct.Struct(">i")
_CORRELATION_ID: Final = struct.Struct(">i")
_API_VERSIONS_VERSION: Final = 3
_ITEMS_MAX: Final = 5_000_000
"""Array items of one answer. It comes from a broker that the user named, and can be of 50,000 partitions and more."""


class UnexpectedAnswer(Exception):  # noqa: N818 - it names the thing found
    """What came is no answer to the request. The connection cannot be used any more."""


@dataclass(frozen=True, slots=True)
class Request(Generic[Answer]):
    """One request, in each version from `least` to `most`."""

    schema: str
    """kio's name of the API, such as "list_offsets"."""
    least: int
    most: int
    encode: Callable[[int], bytes]
    decode: Callable[[Decoder, int], Answer]

    @property
    def api(self) -> Api:
        return _APIS[self.schema]

    @property
    def name(self) -> str:
        """The name in Kafka's documentation, such as ListOffsets."""
        return "".join(word.capitalize() for word in self.schema.split("_"))

    def version_for(self, served: Versions) -> int | None:
        """The highest version that both sides know; None if there is none (KIP-35)."""
        low, high = served.get(self.api.key, (0, -1))
        version = min(self.most, high)
        return version if version >= max(self.least, low) else None


def frame(request: Request[Any], version: int, correlation_id: int, client_id: str) -> bytes:
    """The request with its header and the length before them."""
    name = client_id.encode()
    tags = b"\0" if request.api.is_flexible(version) else b""
    head = _HEADER.pack(request.api.key, version, correlation_id) + _STRING_LENGTH.pack(len(name)) + name + tags
    body = request.encode(version)
    return _LENGTH.pack(len(head) + len(body)) + head + body


def read_answer(request: Request[Answer], version: int, correlation_id: int, answer: memoryview) -> Answer:
    """Read an answer without its length. Raises UnexpectedAnswer."""
    try:
        (found,) = _CORRELATION_ID.unpack_from(answer)
        if found != correlation_id:
            raise UnexpectedAnswer(f"the answer to request {found} came for request {correlation_id}")
        flexible = request.api.is_flexible(version)
        decoder = Decoder(answer, _CORRELATION_ID.size, flexible=flexible, items_max=_ITEMS_MAX)
        # The header of this one answer is never flexible, so that a client can read it before it knows versions.
        if flexible and request.api.key != API_VERSIONS:
            decoder.skip_tags()
        return request.decode(decoder, version)
    except (MalformedRequestError, struct.error) as error:
        raise UnexpectedAnswer(f"{request.schema} version {version}: {error}") from None


def cold_request(
    schema: str, least: int, most: int, fields: Mapping[str, Any], read: Callable[[Any], Answer]
) -> Request[Answer]:
    """A request with kio's fields. `read` makes a value of kio's answer."""

    def encode(version: int) -> bytes:
        return cold.encode_request(schema, version, dict(fields))

    def decode(decoder: Decoder, version: int) -> Answer:
        return read(cold.decode_response(schema, version, decoder))

    return Request(schema, least, most, encode, decode)


def error_text(code: ErrorCode, detail: str | None) -> str:
    """Return Kafka's name of the error, its number, and what the broker said about it, if anything."""
    return f"{code.name.upper()} ({code.value})" + (f": {detail}" if detail else "")


def api_versions(software: str) -> Request[Versions]:
    """A broker that does not know this version answers in version 0, which `decode` reads all the same."""

    def decode(decoder: Decoder, version: int) -> Versions:
        start = decoder.position
        if ErrorCode.unsupported_version == decoder.int16():
            decoder.flexible = False
            version = 0
        decoder.position = start
        answer = cold.decode_response("api_versions", version, decoder)
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    fields = {"client_software_name": software, "client_software_version": "0"}
    return Request(
        "api_versions",
        _API_VERSIONS_VERSION,
        _API_VERSIONS_VERSION,
        lambda version: cold.encode_request("api_versions", version, fields),
        decode,
    )


def sasl_handshake(mechanism: str) -> Request[tuple[str, ...] | None]:
    """The answer is None, or the mechanisms of the broker if this is none of them."""

    def read(answer: Any) -> tuple[str, ...] | None:
        return None if answer.error_code is ErrorCode.none else tuple(answer.mechanisms)

    return cold_request("sasl_handshake", 1, 1, {"mechanism": mechanism}, read)


class SaslAnswer(NamedTuple):
    error: str
    """Empty if the broker goes on with the login."""
    token: bytes
    lifetime_ms: int
    """The time after which the session ends (KIP-368); 0 for never."""


def sasl_authenticate(token: bytes) -> Request[SaslAnswer]:
    def read(answer: Any) -> SaslAnswer:
        lifetime = getattr(answer, "session_lifetime", None)
        is_refused = answer.error_code is not ErrorCode.none
        return SaslAnswer(
            error_text(answer.error_code, answer.error_message) if is_refused else "",
            answer.auth_bytes,
            cold.milliseconds(lifetime) if lifetime else 0,
        )

    return cold_request("sasl_authenticate", 0, 2, {"auth_bytes": token}, read)
