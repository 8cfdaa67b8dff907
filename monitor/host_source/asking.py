"""Asks the agent of one host, over HTTP with a bounded answer; all that can go wrong is one sentence."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from typing import Final

from highwater.monitor.host_source.settings import HostSettings

ANSWER_PATH: Final = "/host"
_LARGEST_BYTES: Final = 4 << 20
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_LENGTH: Final = re.compile(rb"^content-length:[ \t]*(\d{1,15})[ \t]*\r$", re.IGNORECASE | re.MULTILINE)


class AskError(Exception):
    """Why there is no answer, in one sentence without a secret."""


async def ask(host: HostSettings, timeout_s: float) -> bytes:
    """Return the body of the agent's answer. Raises AskError."""
    try:
        async with asyncio.timeout(timeout_s):
            answer = await _exchange(host)
    except TimeoutError:
        raise AskError(f"no answer within {timeout_s:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise AskError(f"its certificate is not trusted: {error.verify_message}; give the authority in ca") from None
    except ssl.SSLError as error:
        raise AskError(f"TLS fails ({error.reason or 'closed'}): does the agent serve with a certificate?") from None
    except (OSError, asyncio.IncompleteReadError) as error:
        raise AskError(f"its agent cannot be reached: {_reason(error)}") from None
    return _body(answer, host)


def _reason(error: Exception) -> object:
    """The system's own words: asyncio's have the address in them, as a tuple."""
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    return getattr(error, "strerror", None) or error


async def _exchange(host: HostSettings) -> bytes:
    name = host.address if host.tls is not None else None
    reader, writer = await asyncio.open_connection(host.address, host.port, ssl=host.tls, server_hostname=name)
    try:
        where = f"[{host.address}]" if ":" in host.address else host.address
        lines = [f"GET {ANSWER_PATH} HTTP/1.0", f"Host: {where}:{host.port}"]
        if host.token is not None:
            lines.append(f"Authorization: Bearer {host.token}")
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await writer.drain()
        answer = bytearray()
        while piece := await reader.read(1 << 16):
            answer += piece
            if len(answer) > _LARGEST_BYTES:
                raise AskError(f"its answer is larger than {_LARGEST_BYTES >> 20} MiB: is there an agent of Highwater?")
        return bytes(answer)
    finally:
        writer.transport.abort()


def _body(answer: bytes, host: HostSettings) -> bytes:
    head, ended, body = answer.partition(b"\r\n\r\n")
    status = _STATUS.match(head)
    if status is None or not ended:
        hint = "" if host.tls is not None else " (or it wants TLS: give ca)"
        raise AskError(f"what answers there speaks no HTTP{hint}" if answer else f"it closes without an answer{hint}")
    code = int(status[1])
    if code == 401:
        raise AskError("its agent wants another token: see token_file")
    if code != 200:
        raise AskError(f"it answers with status {code}: is there an agent of Highwater at this address?")
    length = _LENGTH.search(head + b"\r")
    if length is not None and int(length[1]) != len(body):
        raise AskError("its answer breaks off")
    return body
