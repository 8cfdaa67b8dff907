"""What an exception of a connection to a broker means to a person."""

from __future__ import annotations

import ssl
from typing import Any

from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.exchange import UnservedError
from highwater.kafka.client.handshake import HandshakeError
from highwater.kafka.client.request import UnexpectedAnswer
from highwater.kafka.client.security import TlsError, reason_of, tls_failure
from highwater.kafka.client.settings import Address, ClientSettings
from highwater.kafka.client.spoken import is_unclear, misfit


def explained(address: Address, settings: ClientSettings, api: str, error: Exception) -> ClientError:
    """Return `failure`; if a wrong protocol may be the reason, ask the listener which one it speaks. It blocks."""
    if is_unclear(error):
        found = misfit(address, has_tls=settings.tls is not None, has_login=settings.sasl is not None)
        if found:
            return ClientError(f"broker {text_of(address)} {found}", broker=text_of(address), is_refusal=True)
    return failure(address, api, error)


def failure(address: Address, api: str, error: Exception) -> ClientError:
    """What an exception of a connection means to a person. `api` is empty while the connection begins."""
    broker = text_of(address)
    known: dict[str, Any] = {"broker": broker, "api": api}
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | EOFError | ConnectionResetError | BrokenPipeError):
        if api:
            return ClientError(f"broker {broker} closed the connection before it answered {api}", **known)
        return ClientError(
            f"broker {broker} closes new connections; check security.protocol against that of its listener",
            **known,
        )
    if isinstance(error, ssl.SSLError):
        return ClientError(f"TLS with broker {broker} failed: {tls_failure(error)}", is_refusal=True, **known)
    if isinstance(error, TlsError):
        return ClientError(str(error), is_refusal=True, **known)
    if isinstance(error, HandshakeError):
        return ClientError(f"broker {broker} {error}", is_refusal=True, **known)
    if isinstance(error, UnservedError):
        return ClientError(f"broker {broker} cannot answer: {error}", is_refusal=True, **known)
    if isinstance(error, UnexpectedAnswer):
        return ClientError(f"broker {broker}: {error}", **known)
    return ClientError(f"broker {broker} cannot be reached: {reason_of(error)}", **known)


def text_of(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
