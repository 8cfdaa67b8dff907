"""Systems under test behind one small interface: start on directories, describe yourself, always stop.

The interface needs a command line and Kafka's protocol only, so that any broker can implement it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from highwater.bench.systems.command_line import check_program
from highwater.bench.systems.process import SystemProcess
from highwater.bench.systems.proxy import Proxy
from highwater.bench.systems.running import StartedSystem
from highwater.bench.user_paths import expanded
from highwater.bench.workload.system import ApacheKafkaUnderTest, HighwaterUnderTest, SystemUnderTest

__all__ = ["ExternalSystem", "StartSystem", "StartedSystem", "System", "SystemProcess", "check_system", "start_system"]

READY_WITHIN_S: Final = 120.0


class System(Protocol):
    """One running system. Leaving the context stops it, whatever happened inside."""

    kind: str
    version: str

    def __enter__(self) -> System: ...
    def __exit__(self, *_: object) -> None: ...

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def commands(self) -> list[list[str]]:
        """The command lines of its brokers; empty for an external system."""
        ...

    @property
    def nodes(self) -> list[SystemProcess]:
        """Its brokers, number 1 first, for fault injection; empty for an external system."""
        ...

    @property
    def process_ids(self) -> list[int]:
        """The processes of its brokers on this host; none when it runs elsewhere."""
        ...

    @property
    def attendant_process_ids(self) -> list[int]:
        """Processes that the brokers need beside them: ZooKeeper."""
        ...

    def problem(self) -> str | None:
        """One line when it is no longer running, None while it is."""
        ...


StartSystem = Callable[[SystemUnderTest, Sequence[Path], Path, Callable[[], None]], System]


def start_system(
    wanted: SystemUnderTest, data_directories: Sequence[Path], log_directory: Path, checkpoint: Callable[[], None]
) -> System:
    """Start what the workload asks for and wait until it serves.

    data_directories: where its log goes; none for an external cluster. log_directory: for what it prints and the
    configuration files it is given. `checkpoint` is called while waiting and may raise to give up. Raises UsageError
    when it refuses what it was given, TrialError when it does not come up.
    """
    if wanted.kind == "external":
        return ExternalSystem(wanted.external.bootstrap_servers, wanted.external.product)
    if not data_directories:
        raise ValueError("a system that this run starts needs a data directory")
    directories = list(data_directories)
    if wanted.kind == "command":
        from highwater.bench.systems.command_line import start_command_line

        return start_command_line(wanted.command, directories, log_directory, checkpoint, ready_within_s=READY_WITHIN_S)
    if wanted.kind == "bare-loop":
        from highwater.bench.systems.bare_loop import start_bare_loop

        return start_bare_loop(directories[0], log_directory, checkpoint, ready_within_s=READY_WITHIN_S)
    if wanted.kind == "apache-kafka":
        from highwater.bench.systems.apache_kafka import find_distribution, start_apache_kafka

        return start_apache_kafka(
            find_distribution(wanted.version),
            wanted.nodes,
            wanted.config,
            directories,
            log_directory,
            checkpoint,
            ready_within_s=READY_WITHIN_S,
            proxy=_proxy_of(wanted),
        )
    from highwater.bench.systems.highwater import start_highwater

    return start_highwater(
        wanted.nodes,
        wanted.config,
        directories,
        log_directory,
        checkpoint,
        ready_within_s=READY_WITHIN_S,
        source=source_of(wanted),
        processes=wanted.processes,
        proxy=_proxy_of(wanted),
    )


def _proxy_of(wanted: HighwaterUnderTest | ApacheKafkaUnderTest) -> Proxy | None:
    return None if wanted.proxy is None else Proxy(wanted.proxy)


def check_system(wanted: SystemUnderTest) -> None:
    """Check, without a start, that this host has what the system needs. Raises UsageError."""
    if wanted.kind == "command":
        check_program("system.command", wanted.command)
    elif wanted.kind == "apache-kafka":
        from highwater.bench.systems.apache_kafka import check_distribution

        check_distribution(wanted.version)
    elif wanted.kind == "highwater":
        from highwater.bench.systems.highwater import check_highwater

        check_highwater(wanted.nodes, source_of(wanted))
    if wanted.kind in ("highwater", "apache-kafka") and wanted.proxy is not None:
        check_program(f"system.proxies.{wanted.through}", wanted.proxy)


def source_of(wanted: HighwaterUnderTest) -> Path | None:
    """The checkout whose broker is to run; None: this installation's."""
    return expanded(wanted.source).absolute() if wanted.source else None


class ExternalSystem:
    """An external cluster.

    Kafka's protocol does not report product and version: the workload does, or they are unknown.
    """

    kind = "external"

    def __init__(self, bootstrap_servers: str, product: str | None = None) -> None:
        self.version = product or "unknown"
        self.bootstrap_servers = bootstrap_servers
        self.commands: list[list[str]] = []
        self.nodes: list[SystemProcess] = []
        self.process_ids: list[int] = []
        self.attendant_process_ids: list[int] = []

    def __enter__(self) -> ExternalSystem:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def problem(self) -> str | None:
        return None
