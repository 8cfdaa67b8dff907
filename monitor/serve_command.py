"""`highwater monitor serve`: reads the configuration, starts the monitor, and ends it on a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import uvicorn

from highwater.common.errors import UsageError
from highwater.common.listen_address import ListenAddress, listening_at
from highwater.common.log_lines import log_to_standard_error
from highwater.monitor.actions.acting import Actions
from highwater.monitor.alerts.delivery import Deliverer
from highwater.monitor.alerts.keeper import AlertKeeper
from highwater.monitor.config import MonitorConfig, WebConfig
from highwater.monitor.figures.findings import KAFKA
from highwater.monitor.garbage import hold_less_memory
from highwater.monitor.history.database import open_history
from highwater.monitor.history.reader import HistoryReader
from highwater.monitor.history.writer import HistoryWriter
from highwater.monitor.messages.reading import MessageReader
from highwater.monitor.oidc.login import CALLBACK_PATH, OidcLogin
from highwater.monitor.oidc.settings import check_extra
from highwater.monitor.serving import Monitor, Source
from highwater.monitor.sources import WithZooKeeper, client_of, source_of, zookeeper_of
from highwater.monitor.users import has_users, users_in
from highwater.monitor.web.app import make_app
from highwater.monitor.web.base_path import with_base_path
from highwater.monitor.web.site import LOOPBACK_NAMES, Settings, bind_problem
from highwater.monitor.web_server import App, address_of, metrics_app, server_of, with_metrics

_NO_HISTORY: Final = "none"
# A page changes threads a few times, and waits each time while figures of a tick are worked out: 5 ms without this.
_SWITCH_S: Final = 0.001
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class _Parts:
    monitor: Monitor
    servers: tuple[tuple[uvicorn.Server, socket.socket], ...]
    lines: tuple[str, ...]
    """What is printed when all of it listens."""
    first_address: str
    """The link for the first login while there are no users; else the first page."""


def serve(
    config: MonitorConfig, environment: Mapping[str, str], listening: Callable[[str], None] | None = None
) -> None:
    """Run until SIGTERM or Ctrl-C. Raises MonitorError for what cannot work, before anything is served.

    listening: called with the address to open first, when it can be opened.
    """
    asyncio.run(_serve(config, environment, listening))


async def _serve(
    config: MonitorConfig, environment: Mapping[str, str], listening: Callable[[str], None] | None
) -> None:
    async with source_of(config) as source:
        hold_less_memory()
        log_to_standard_error(level=logging.WARNING)
        with ExitStack() as stack:
            await _run(_parts(config, source, environment, stack), listening)


def _parts(config: MonitorConfig, source: Source, environment: Mapping[str, str], stack: ExitStack) -> _Parts:
    folder = config.folder(environment)
    oidc = _oidc(config.web)
    # What can be refused is, before there is a folder: nobody would look for it.
    has_any = oidc is not None or has_users(folder, config.web.issuer, has_local=config.web.has_local_users)
    _check_binding(config, has_users=has_any)
    token = _token(config)
    listening = stack.enter_context(listening_at(config.web.listen, "--listen"))
    own_listening = None
    if config.metrics.listen is not None:
        own_listening = stack.enter_context(listening_at(config.metrics.listen, "metrics.listen"))
    users = users_in(folder, config.web.issuer, has_local=config.web.has_local_users)
    stack.callback(users.close)
    writer, reader, notes = _history(config, folder, stack)
    scheme = "https" if config.web.tls_certificate is not None else "http"
    base = config.web.base_path
    address = f"{scheme}://{address_of(listening)}{base}"
    deliverer = Deliverer(config.alerts.targets) if config.alerts.targets else None
    if deliverer is not None:
        stack.callback(deliverer.stop)
    keeper = AlertKeeper(folder, deliverer, config.alerts.address or f"{address}/alerts")
    if keeper.error:
        notes.append(keeper.error)
    zookeeper = zookeeper_of(config, stack)
    whole = source if zookeeper is None else WithZooKeeper(source, zookeeper)
    monitor = Monitor(whole, config.tick_s, writer, keeper.told, ceilings=config.ceilings)
    is_tls = config.web.tls_certificate is not None or bool(config.web.proxies)
    settings = Settings(
        bootstrap=config.bootstrap_servers,
        is_tls=is_tls,
        host_names=LOOPBACK_NAMES | {config.web.listen.host, *config.web.host_names},
        tick_s=config.tick_s,
        base_path=base,
    )
    actions = Actions(config.bootstrap_servers, client_of(config)) if config.has_actions else None
    pages = make_app(
        monitor.view,
        reader,
        users,
        settings,
        monitor.state,
        keeper,
        zookeeper=zookeeper,
        actions=actions,
        messages=MessageReader(client_of(config)) if config.has_messages else None,
        oidc=oidc,
        note=monitor.note,
    )
    app: App = pages
    if token is not None:
        app = with_metrics(pages, metrics_app(monitor, has_partitions=config.metrics.has_partitions, token=token))
    servers = [(server_of(with_base_path(app, base), config.web), listening)]
    lines = [f"monitor of {config.shown_name}: {address}/"]
    first_address = f"{address}/"
    if users.has_local and users.is_empty():
        first_address = f"{address}/setup?token={users.offer_set_up()}"
        lines.append(f"first login, once, within 15 minutes: {first_address}")
    if oidc is not None:
        redirects = ", ".join(f"{each}{base}{CALLBACK_PATH}" for each in _browser_addresses(config.web, listening))
        lines.append(f"login by {oidc.settings.issuer}, which must allow the redirect to {redirects}")
    if own_listening is not None:
        metrics = metrics_app(monitor, has_partitions=config.metrics.has_partitions, token=token)
        servers.append((server_of(metrics, replace(config.web, proxies=())), own_listening))
        lines.append(f"metrics: {scheme}://{address_of(own_listening)}/metrics")
    return _Parts(monitor, tuple(servers), (*lines, f"data: {folder}", *notes), first_address)


def _check_binding(config: MonitorConfig, *, has_users: bool) -> None:
    web = config.web
    problem = bind_problem(web.listen.host, web.tls_certificate is not None, bool(web.proxies), has_users)
    if problem:
        raise UsageError(f"--listen: {problem}")
    metrics = config.metrics
    if metrics.listen is not None and metrics.listen.host not in LOOPBACK_NAMES and metrics.token_file is None:
        raise UsageError(
            f"metrics.listen: {metrics.listen.host} can be reached from other hosts: give metrics.token_file too"
        )


def _oidc(web: WebConfig) -> OidcLogin | None:
    if web.oidc is None:
        return None
    check_extra()
    return OidcLogin(web.oidc)


def _browser_addresses(web: WebConfig, listening: socket.socket) -> list[str]:
    """Return the addresses of the pages, as far as the monitor knows how browsers call it."""
    host, port = address_of(listening)
    names = web.host_names or (host,)
    if web.proxies and web.host_names:
        return [f"https://{name}" for name in names]
    scheme = "https" if web.tls_certificate is not None or web.proxies else "http"
    return [f"{scheme}://{ListenAddress(name, port)}" for name in names]


def _token(config: MonitorConfig) -> str | None:
    file = config.metrics.token_file
    if file is None:
        return None
    try:
        token = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"metrics.token_file {file}: cannot read it: {error}") from None
    if len(token) < 16:
        raise UsageError(f"metrics.token_file {file}: a token has at least 16 characters")
    return token


def _history(
    config: MonitorConfig, folder: Path, stack: ExitStack
) -> tuple[HistoryWriter | None, HistoryReader | None, list[str]]:
    if config.history.address == _NO_HISTORY:
        return None, None, ["history: none"]
    database = open_history(config.history.address, folder)
    stack.callback(database.close)
    writer = HistoryWriter(database, config.history.retention, config.history.max_bytes)
    writer.start()
    stack.callback(writer.close)
    note = [writer.state.note] if writer.state.note else []
    return writer, HistoryReader(database), [f"history: {database.shown}", *note]


async def _tell_if_silent(monitor: Monitor) -> None:
    """The pages say it too; who mistyped an address looks here first."""
    while not (monitor.state().ticks or monitor.state().failed_ticks):
        await asyncio.sleep(_POLL_S)
    view = monitor.view()
    if view is None or not view[0].brokers:
        reason = monitor.state().error if view is None else view[0].sources[KAFKA].error
        sys.stderr.write(
            f"no answer yet: {reason.rstrip('. ')}; it is tried again every {monitor.state().tick_s:g} s\n"
        )


async def _run(parts: _Parts, listening: Callable[[str], None] | None) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    sys.setswitchinterval(_SWITCH_S)
    tasks = [asyncio.create_task(server.serve(sockets=[own])) for server, own in parts.servers]
    ticking = asyncio.create_task(parts.monitor.run())
    for line in parts.lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
    if listening is not None:
        listening(parts.first_address)
    telling = asyncio.create_task(_tell_if_silent(parts.monitor))
    waiting = asyncio.create_task(ended.wait())
    await asyncio.wait([waiting, ticking, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for server, _ in parts.servers:
        server.should_exit = True
    for each in (ticking, telling, waiting):
        each.cancel()
    await asyncio.gather(*tasks)  # a server that ended by itself says why
    with suppress(asyncio.CancelledError):
        await ticking  # and so does the monitor
