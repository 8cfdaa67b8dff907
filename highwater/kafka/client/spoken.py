"""Finds out what a listener speaks, to name the setting with which a client does not fit it.

A listener that is spoken to in the wrong way closes the connection, or sends bytes of another protocol: neither says
why. So it is asked again, without TLS and with it.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final, NamedTuple

from highwater.kafka.client.exchange import Arrived, Exchange, UnservedError
from highwater.kafka.client.request import UnexpectedAnswer, sasl_handshake

_SOFTWARE: Final = "highwater"
_WITHIN_S: Final = 2.0
_NO_MECHANISM: Final = "NONE"
"""A listener with logins answers with the mechanisms that it takes."""
_READ_BYTES: Final = 64 << 10


class Spoken(NamedTuple):
    has_tls: bool
    mechanisms: tuple[str, ...] | None
    """The mechanisms of the login; empty without a login, None if the listener did not report them."""


def is_unclear(error: Exception) -> bool:
    """Whether a listener that speaks another protocol may be the reason of a connection's end."""
    if isinstance(error, ssl.SSLError):
        return not isinstance(error, ssl.SSLCertVerificationError)
    return isinstance(error, EOFError | ConnectionResetError | BrokenPipeError | UnexpectedAnswer)


def misfit(address: tuple[str, int], *, has_tls: bool, has_login: bool) -> str:
    """Why a client with these settings and the listener do not come together, without its subject, the broker.

    Empty if the listener does not answer, or fits. It blocks.
    """
    spoken = spoken_at(address)
    return "" if spoken is None else misfit_of(spoken, has_tls=has_tls, has_login=has_login)


def misfit_of(spoken: Spoken, *, has_tls: bool, has_login: bool) -> str:
    mechanisms = spoken.mechanisms
    wants_login = has_login if mechanisms is None else bool(mechanisms)
    if (spoken.has_tls, wants_login) == (has_tls, has_login):
        return ""
    theirs = _protocol(spoken.has_tls, wants_login)
    also = []
    if spoken.has_tls and not has_tls:
        also.append("ssl.ca.location, if the authority of its certificate is not one of the host's")
    if mechanisms and not has_login:
        also.append(f"sasl.mechanism ({' or '.join(mechanisms)}), sasl.username and sasl.password")
    return (
        f"speaks {theirs} at this address, and this client speaks {_protocol(has_tls, has_login)}: set "
        f"security.protocol={theirs}{''.join(f', and {each}' for each in also)}"
    )


def _protocol(has_tls: bool, has_login: bool) -> str:
    return f"{'SASL_' if has_login else ''}{'SSL' if has_tls else 'PLAINTEXT'}"


def spoken_at(address: tuple[str, int]) -> Spoken | None:
    """Ask the listener; None if it does not answer as a Kafka broker does. It blocks for some seconds at most."""
    return _asked(address, None) or _asked(address, _trusting_context())


def _trusting_context() -> ssl.SSLContext:
    """Nothing is said to the listener that it may not know: no login follows, and no answer is believed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _asked(address: tuple[str, int], context: ssl.SSLContext | None) -> Spoken | None:
    has_tls = context is not None
    spoken = None
    try:
        with socket.create_connection(address, _WITHIN_S) as plain:
            channel = plain if context is None else context.wrap_socket(plain)
            with channel:
                if has_tls:
                    spoken = Spoken(True, None)
                exchange = Exchange(_SOFTWARE, None)
                _answers(channel, exchange)
                spoken = Spoken(has_tls, ())
                exchange.ask(sasl_handshake(_NO_MECHANISM))
                (answer,) = _answers(channel, exchange)
                return Spoken(has_tls, answer.value() or ())
    except ssl.SSLError as error:
        # A listener that sends an alert speaks TLS, and wants another version, or a certificate.
        return spoken or (Spoken(True, None) if "ALERT" in (error.reason or "") else None)
    except TimeoutError:
        return spoken and spoken._replace(mechanisms=None)
    except (OSError, EOFError, UnexpectedAnswer, UnservedError):
        return spoken


def _answers(channel: socket.socket, exchange: Exchange) -> list[Arrived]:
    """Send what there is to send, and return the answers to it; those of the handshake are not among them."""
    channel.sendall(exchange.data_to_send())
    arrived: list[Arrived] = []
    while exchange.pending:
        data = channel.recv(_READ_BYTES)
        if not data:
            raise EOFError
        arrived += exchange.received(data)
    return arrived
