"""Serves the agent's pages until a signal: who may ask, over which address, with which certificate."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.bench.host_agent.collecting import AgentSettings, HostReaderForAgent
from highwater.bench.host_agent.exposition import metrics_text
from highwater.common.bounded_http import is_loopback
from highwater.common.errors import UsageError
from highwater.common.http_endpoint import HttpEndpoint, Page
from highwater.common.listen_address import ListenAddress, listening_at, read_listen_address
from highwater.common.log_lines import log_to_standard_error

DEFAULT_LISTEN: Final = "127.0.0.1:9646"
ANSWER_PATH: Final = "/host"
METRICS_PATH: Final = "/metrics"
TOKEN_VARIABLE: Final = "HIGHWATER_AGENT_TOKEN"  # noqa: S105 - the name of a variable
SHORTEST_TOKEN: Final = 16
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Access:
    """Where the agent listens, and for whom."""

    address: ListenAddress
    token: str | None = None
    tls: ssl.SSLContext | None = None


def access_of(
    listen: str,
    token_file: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    environment: Mapping[str, str],
) -> Access:
    """Raises UsageError: what can be reached from other hosts needs a token and TLS."""
    try:
        address = read_listen_address(listen)
    except UsageError as error:
        raise UsageError(f"--listen: {error}, such as {DEFAULT_LISTEN} or [::1]:9646") from None
    token = _token(token_file, environment)
    tls = _tls(tls_certificate, tls_key)
    if not is_loopback(address.host):
        missing = [
            what
            for what, is_there in (
                (f"a token (--token-file, or {TOKEN_VARIABLE} in the environment)", token is not None),
                ("TLS (--tls-certificate and --tls-key)", tls is not None),
            )
            if not is_there
        ]
        if missing:
            raise UsageError(f"--listen {listen} can be reached from other hosts: give {' and '.join(missing)}")
    return Access(address, token, tls)


def serve(settings: AgentSettings, access: Access) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises UsageError for an address that cannot be listened on."""
    log_to_standard_error(level=logging.WARNING)
    listening = listening_at(access.address, "--listen")
    with listening:
        asyncio.run(_serve(HostReaderForAgent(settings), access, listening))


async def _serve(reader: HostReaderForAgent, access: Access, listening: socket.socket) -> None:
    async def answer() -> str:
        return (await asyncio.to_thread(reader.answer)).as_json()

    async def metrics() -> str:
        return metrics_text(await asyncio.to_thread(reader.answer))

    pages = {ANSWER_PATH: Page(answer, _JSON), METRICS_PATH: Page(metrics)}
    hint = f"the host is at {ANSWER_PATH}, and for Prometheus at {METRICS_PATH}"
    endpoint = HttpEndpoint(pages, hint, access.token, [access.address.host])
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    await endpoint.start([listening], access.tls)
    scheme = "http" if access.tls is None else "https"
    where = access.address._replace(port=listening.getsockname()[1])
    sys.stdout.write(f"agent of this host: {scheme}://{where}{ANSWER_PATH} and {METRICS_PATH}\n")
    sys.stdout.flush()
    await ended.wait()
    endpoint.close()


def _token(file: Path | None, environment: Mapping[str, str]) -> str | None:
    if file is None:
        token, where = environment.get(TOKEN_VARIABLE), TOKEN_VARIABLE
        if token is None:
            return None
    else:
        where = f"--token-file {file}"
        try:
            token = file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{where}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise UsageError(f"{where}: a token has at least {SHORTEST_TOKEN} characters, all of them printable ASCII")
    return token


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("TLS needs both: --tls-certificate FILE and --tls-key FILE")
    for option, file in (("--tls-certificate", certificate), ("--tls-key", key)):
        if not file.is_file():
            raise UsageError(f"{option} {file}: no such file")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # A key with a password would ask for it on the terminal.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise UsageError(f"--tls-certificate {certificate}, --tls-key {key}: cannot use them: {_text(error)}") from None
    return context


def _text(error: Exception) -> str:
    return " ".join(str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error).split())
