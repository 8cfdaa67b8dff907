"""Starts brokers fast: a process that imports the broker once, and forks a copy of itself for each.

The first line of its output is its temporary folder. Then one JSON line comes in for each start and for each end, and
one goes out. It ends with its input, or with its parent; its brokers and its folder end with it. It has one thread and
no event loop, so that a fork copies no lock that is held.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import select
import signal
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

from highwater.broker.commands.ephemeral import guarded_folder
from highwater.common.child_process import ends_with_parent

_START_WITHIN_S: Final = 60.0
_STOP_WITHIN_S: Final = 30.0
_FIRST_API: Final = "api_versions"
_NEXT_APIS: Final = (
    "find_coordinator",
    "join_group",
    "sync_group",
    "heartbeat",
    "list_offsets",
    "offset_fetch",
    "offset_commit",
    "leave_group",
    "create_topics",
    "init_producer_id",
)
"""The other requests of most tests. Codecs of Produce, Fetch and Metadata are no part of kio."""


def main() -> None:
    with guarded_folder() as folder:
        _say(folder=str(folder))
        _import_all()
        _prepare(_FIRST_API)
        for name in _NEXT_APIS:
            if not select.select([sys.stdin], [], [], 0)[0]:  # while no order waits
                _prepare(name)
        import_module("highwater.broker.server.faults")
        with suppress(ImportError):
            import_module("yaml")  # it reads scripts of faults, where it is installed
        brokers: set[int] = set()
        for line in iter(sys.stdin.readline, ""):
            order = json.loads(line)
            if order is None:
                break
            if "end" in order:
                brokers.discard(order["end"])
                _say(status=_end(order["end"], order["signal"]))
            else:
                process_id, address = _start(order)
                if address:
                    brokers.add(process_id)
                _say(process_id=process_id, address=address)
        for process_id in brokers:
            _end(process_id, signal.SIGKILL)


def _say(**answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _import_all() -> None:
    """Import what a broker imports until it has answered its first clients."""
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type] # kio imports it where it is installed
    from highwater.broker import handlers

    for name in ("alone.assembly", "server.broker", *(f"handlers.{each.name}" for each in _modules(handlers))):
        import_module(f"highwater.broker.{name}")


def _prepare(name: str) -> None:
    """Load the codecs of an API."""
    from highwater.kafka.protocol import cold
    from highwater.kafka.protocol.apis import APIS

    (api,) = (each for each in APIS.values() if each.name == name)
    for version in range(max(api.min_version, api.served_from), api.max_version + 1):
        cold.prepare(name, version)


def _modules(package: Any) -> list[pkgutil.ModuleInfo]:
    return [each for each in pkgutil.iter_modules(package.__path__) if not each.ispkg]


def _start(order: dict[str, Any]) -> tuple[int, str]:
    """Return the id of the process of a broker, and its address; no address if it did not start."""
    reading, writing = os.pipe()
    template = os.getpid()
    # What exists now is for ever: no collection of a copy looks at it, so that its pages stay shared.
    gc.freeze()
    process_id = os.fork()
    if not process_id:
        os.close(reading)
        _run(order, template, writing)
    os.close(writing)
    with os.fdopen(reading) as ready:
        is_in_time, _, _ = select.select([ready], [], [], _START_WITHIN_S)
        address = ready.readline().strip() if is_in_time else ""
    if not address:
        _end(process_id, signal.SIGKILL)
    return process_id, address


def _end(process_id: int, number: int) -> int:
    """Send it a signal, and SIGKILL if it has not ended in time. Returns the exit status, or −signal."""
    pidfd = os.pidfd_open(process_id)
    os.kill(process_id, number)  # its id is not used again before waitpid
    if not select.select([pidfd], [], [], _STOP_WITHIN_S)[0]:
        os.kill(process_id, signal.SIGKILL)
    os.close(pidfd)
    return os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])


def _run(order: dict[str, Any], template: int, ready_fd: int) -> NoReturn:
    """Run a broker in the process that was just forked."""
    status = 1
    try:
        ends_with_parent(signal.SIGKILL)()
        if os.getppid() != template:
            os._exit(status)  # it died before the kernel was asked to signal that
        path = Path(order["log"])
        path.parent.mkdir(exist_ok=True)
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor, target in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
            os.dup2(descriptor, target)
        status = _serve(order, ready_fd)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _serve(order: dict[str, Any], ready_fd: int) -> int:
    from highwater.broker.server import broker
    from highwater.broker.server.start_check import SETUP_ERRORS
    from highwater.broker.settings.config import BrokerConfig, Setting
    from highwater.common.command_errors import report_error
    from highwater.common.errors import UsageError
    from highwater.common.exit_codes import EXIT_USAGE
    from highwater.common.log_lines import log_to_standard_error

    log_to_standard_error(level=order["log_level"])
    settings = [Setting("properties", name, text) for name, text in order["settings"].items()]
    try:
        if order["faults"] is not None:
            from highwater.broker.server.faults import FOR_FAULTS, plane_of

            settings[:0] = [Setting("faults", name, text) for name, text in FOR_FAULTS.items()]
            checked = BrokerConfig(settings)
            plane = plane_of(checked, None, order["faults"], anywhere=False)
            return broker.run(checked, ready_fd=ready_fd, faults=plane)
        checked = BrokerConfig(settings)
        if not checked.is_set("highwater.processes"):
            return broker.run(checked, ready_fd=ready_fd)
        from highwater.broker.server import parent

        return parent.run(settings, ready_fd)
    except (*SETUP_ERRORS, UsageError) as error:
        report_error(str(error))
        return EXIT_USAGE


if __name__ == "__main__":
    main()
