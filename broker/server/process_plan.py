"""What each process of a host is started with: ids, ports, log directories and settings of its own."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from highwater.broker.cluster.peers import Endpoint
from highwater.broker.server.listeners import endpoints_of, metrics_endpoint_of
from highwater.broker.server.peer_security import PeerSecurity
from highwater.broker.server.start_check import broker_id_of, check, log_directory_paths
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting
from highwater.kafka.client.host_processes import LOCAL, PROCESS, PROCESSES
from highwater.kafka.login.scram import ScramMechanism

_logger = logging.getLogger(__name__)

MOST_PROCESSES: Final = 256
_OWN: Final = (
    PROCESS,
    PROCESSES,
    "advertised.listeners",
    "broker.id",
    "listeners",
    "log.dir",
    "log.dirs",
    "node.id",
)
"""Properties that each process has a value of its own for."""
_DEFAULTS: Final = {
    # A second copy on the same host protects from little.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    # When all processes stop, nobody can take over from the last one, so it must not retry for long.
    "controlled.shutdown.retry.backoff.ms": "500",
}
_PLACE: Final = "the processes of this host"
_NO_TREE: Final = f"{LOCAL}none"
"""The name of a tree in settings that are read before there is one."""


class ProcessPlan(NamedTuple):
    process_count: int
    """0: as many as there are cores, and at least as many as there were before."""
    base_id: int
    paths: list[Path]
    endpoints: list[Endpoint]
    advertised: dict[str, Endpoint]
    metrics_endpoint: Endpoint | None
    settings: list[Setting]
    """Those that a person made for all processes."""

    @staticmethod
    def of(settings: Sequence[Setting]) -> ProcessPlan:
        """Raises one of SETUP_ERRORS for what a start refuses of the settings by themselves; touches nothing."""
        config = BrokerConfig(settings)
        if config.is_of_a_cluster:
            raise ConfigError(
                f"{PROCESSES} is for a host alone: with zookeeper.connect, start one broker for each core, with a "
                "broker.id, port and log directory of its own"
            )
        text = (config.string(PROCESSES) or "").strip()
        if text != "auto" and (not re.fullmatch(r"[0-9]{1,3}", text) or not 1 <= int(text) <= MOST_PROCESSES):
            raise ConfigError(f"{PROCESSES}={text}: write a number from 1 to {MOST_PROCESSES}, or auto")
        endpoints, advertised = endpoints_of(config)
        of_zookeeper = [setting for setting in settings if setting.name.startswith("zookeeper.")]
        for setting in of_zookeeper:
            _logger.warning("%s: %s has no effect: the metadata is kept by this host", setting.place, setting.name)
        kept = [setting for setting in settings if setting.name not in _OWN and setting not in of_zookeeper]
        plan = ProcessPlan(
            0 if text == "auto" else int(text),
            max(broker_id_of(config), 0),
            log_directory_paths(config),
            endpoints,
            advertised,
            metrics_endpoint_of(config),
            kept,
        )
        if plan.process_count:
            plan.check_count(config.integer("reserved.broker.max.id"))
        check(BrokerConfig(plan.settings_of(0, tree=_NO_TREE)))
        return plan

    def check_count(self, most_id: int) -> None:
        """Raises ConfigError if there are not so many ids or ports."""
        count, last_id = self.process_count, self.base_id + self.process_count - 1
        if last_id > most_id:
            raise ConfigError(
                f"{PROCESSES}={count}: the last process would have broker.id={last_id}, above "
                f"reserved.broker.max.id={most_id}"
            )
        taken: dict[int, str] = {}
        for endpoint in self.endpoints:
            if endpoint.port + count > 65535:
                raise ConfigError(
                    f"{PROCESSES}={count}: {endpoint.listener_name} needs the ports {endpoint.port} to "
                    f"{endpoint.port + count}, and the last port is 65535"
                )
            for port in range(endpoint.port, endpoint.port + count + 1) if endpoint.port else ():
                if port in taken:
                    raise ConfigError(
                        f"{PROCESSES}={count}: {taken[port]} and {endpoint.listener_name} both need port {port}; each "
                        f"listener needs {count + 1} ports, its own and one for each process"
                    )
                taken[port] = endpoint.listener_name
        if self.metrics_endpoint is not None and self.metrics_endpoint.port in taken:
            port = self.metrics_endpoint.port
            raise ConfigError(
                f"{PROCESSES}={count}: port {port} of metrics.listener is one of those that {taken[port]} needs; each "
                f"listener needs {count + 1} ports"
            )

    def counted(self, count_before: int) -> ProcessPlan:
        """The plan with its number of processes, of which there were so many before. Raises ConfigError."""
        count, cores = self.process_count, usable_cores()
        if count:
            if count > cores:
                _logger.warning("%d processes share %d cores; --processes auto starts one for each", count, cores)
            return self
        plan = self._replace(process_count=min(max(cores, count_before), MOST_PROCESSES))
        plan.check_count(BrokerConfig(self.settings).integer("reserved.broker.max.id"))
        return plan

    def endpoints_of(self, index: int) -> list[Endpoint]:
        """Where one process listens for itself: at the port of the listener + 1 + its number."""
        return [_of_process(endpoint, index) for endpoint in self.endpoints]

    def settings_of(self, index: int, tree: str) -> list[Setting]:
        """What one process is started with; the tree listens at the address `tree` for it."""
        named = {setting.name for setting in self.settings}
        defaults = {"broker.rack": socket.gethostname(), **_DEFAULTS}
        own = {
            PROCESSES: str(self.process_count),
            PROCESS: str(index),
            "broker.id": str(self.base_id + index),
            "listeners": ",".join(map(_text, self.endpoints_of(index))),
            "log.dirs": ",".join(str(path) for path in self.directories_of(index)),
            "zookeeper.connect": tree,
            **{name: value for name, value in defaults.items() if name not in named},
        }
        if self.advertised:
            own["advertised.listeners"] = ",".join(
                _text(_of_process(endpoint, index)) for endpoint in self.advertised.values()
            )
        return [*self.settings, *(Setting(_PLACE, name, value) for name, value in own.items())]

    @property
    def scram_login(self) -> tuple[ScramMechanism, str] | None:
        """The SCRAM mechanism and user with which the processes log in to each other; None without SCRAM."""
        return PeerSecurity(BrokerConfig(self.settings_of(0, tree=_NO_TREE))).scram_login

    def directories_of(self, index: int) -> list[Path]:
        return [path / f"process-{index}" for path in self.paths]


def usable_cores() -> int:
    """How many this process may use: `taskset` and control groups with a cpuset leave fewer than there are."""
    return len(os.sched_getaffinity(0))


def _of_process(endpoint: Endpoint, index: int) -> Endpoint:
    return endpoint._replace(port=endpoint.port + 1 + index) if endpoint.port else endpoint


def _text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener_name}://{host}:{endpoint.port}"
