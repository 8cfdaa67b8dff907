"""Our own broker: one alone, or several on a ZooKeeper; of this installation, or of another checkout."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from highwater.bench.environment import git_state
from highwater.bench.systems.process import SystemProcess, listening, ready_line
from highwater.bench.systems.properties import Broker, brokers_of, cluster_defaults, name_of, write_properties
from highwater.bench.systems.proxy import Proxy
from highwater.bench.systems.running import StartedSystem, await_members
from highwater.bench.systems.zookeeper import serving, start_zookeeper, zookeeper_command
from highwater.bench.workload.client_properties import as_text
from highwater.bench.workload.values import Scalar
from highwater.common import child_process, distribution
from highwater.common.compiled import SETTING, compiled_modules
from highwater.common.errors import UsageError
from highwater.common.ports import free_ports
from highwater.common.units import plural

HIGHWATER: Final = "highwater"


def check_highwater(nodes: int, source: Path | None) -> None:
    """Raises UsageError when `source` is no checkout, or several brokers lack what their ZooKeeper needs."""
    if source is not None:
        _version_of(source)
    if nodes > 1:
        zookeeper_command(Path("zookeeper.properties"))


def start_highwater(
    nodes: int,
    config: Mapping[str, Scalar],
    data_directories: list[Path],
    log_directory: Path,
    checkpoint: Callable[[], None],
    *,
    ready_within_s: float,
    source: Path | None = None,
    processes: int | None = None,
    proxy: Proxy | None = None,
) -> StartedSystem:
    """source: a checkout whose broker to run. processes: in how many the one broker runs. proxy: before the one broker.

    Raises UsageError when `source` is no checkout, or the broker refuses its input.
    """
    if source is None:
        version, environment = f"{distribution.version()}{'-compiled' if compiled_modules() else ''}", {}
    else:
        version, environment = _version_of(source), {"PYTHONPATH": str(source)}
        if (source / "setup.py").is_file():
            # Versions are compared as Python, as few checkouts are compiled.
            environment[SETTING] = os.environ.get(SETTING) or "0"
    command = [*child_process.HIGHWATER, "broker", "start"]
    with ExitStack() as stack:
        attendants = []
        settings: dict[str, Scalar] = {**config, **({} if proxy is None else proxy.advertised)}
        if nodes > 1:
            (zookeeper_port,) = free_ports(1)
            zookeeper = start_zookeeper(data_directories[0] / "zookeeper", log_directory, zookeeper_port)
            stack.callback(zookeeper.stop)
            zookeeper.await_ready(serving(zookeeper_port), checkpoint, ready_within_s)
            attendants = [zookeeper]
            settings = {**cluster_defaults(nodes), "zookeeper.connect": f"127.0.0.1:{zookeeper_port}", **config}
        brokers = []
        places = brokers_of(nodes, data_directories, log_directory, shared=nodes > 1)

        def options_of(broker: Broker, address: str) -> list[str]:
            if nodes == 1:
                options = ["--port", address.rpartition(":")[2], "--property", f"log.dirs={broker.log_dirs}"]
                for name, value in settings.items():
                    options += ["--property", f"{name}={as_text(value)}"]
                return options if processes is None else [*options, "--processes", str(processes)]
            own: dict[str, Scalar] = {
                "broker.id": broker.number,
                "log.dirs": broker.log_dirs,
                "listeners": f"PLAINTEXT://{address}",
            }
            return ["--config", str(write_properties(broker.properties_file, {**settings, **own}))]

        port = 0 if proxy is None else proxy.target_port
        is_ready = ready_line if proxy is None else listening(port)
        for broker in places:
            options = options_of(broker, f"127.0.0.1:{port}")
            process = SystemProcess(
                name_of(broker, nodes), [*command, *options], broker.log_file, environment=environment
            )
            stack.callback(process.stop)
            brokers.append(process)
        for process, broker in zip(brokers, places, strict=True):
            process.await_ready(is_ready, checkpoint, ready_within_s)
            process.command_again = [*command, *options_of(broker, process.address)]
        entry = None
        if proxy is not None:
            entry = proxy.start(log_directory, checkpoint, ready_within_s)
            stack.callback(entry.stop)
        in_processes = "" if processes is None else f", {plural(processes, 'process')}"
        system = StartedSystem(HIGHWATER, f"{version}{in_processes}", brokers, attendants, entry)
        if (members := processes or nodes) > 1:
            await_members(system, members, checkpoint, ready_within_s)
        stack.pop_all()
    return system


def is_checkout(directory: Path) -> bool:
    """Whether a broker can be started from there with `python -m highwater`: a checkout, or an unpacked wheel.

    Version 0.1 had a module highwater.py.
    """
    is_first_version = (directory / "broker").is_dir() and (directory / "highwater.py").is_file()
    return is_first_version or (directory / "highwater" / "broker").is_dir()


def unpacked_wheel(wheel: Path, directory: Path) -> Path:
    """Unpack a wheel into a new or empty `directory`, which a broker can then be started from.

    Raises UsageError when it is no wheel of ours, or something is there.
    """
    if directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory} is there, maybe of another wheel: remove it, or name another directory")
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(directory)
    except (OSError, zipfile.BadZipFile) as error:
        raise UsageError(f"{wheel} cannot be unpacked: {error}; `make compiled` makes a wheel") from error
    if not is_checkout(directory):
        raise UsageError(f"{wheel} holds no broker of Highwater; `make compiled` makes a wheel")
    return directory


def _version_of(source: Path) -> str:
    if not is_checkout(source):
        raise UsageError(f"system.source: {source} holds no highwater/ and no broker/; name a checkout")
    git = git_state(source)
    return f"{git.commit}{'+changes' if git.dirty else ''}" if git else f"of {source}"
