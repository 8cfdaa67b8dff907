"""Asks the system, before any trial, whether it has the settings of a question."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from highwater.bench.systems import StartSystem, start_system
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.workload.model import Workload
from highwater.common.errors import TrialError, UsageError
from highwater.studies.advise.question import Asked
from highwater.studies.advise.space import Candidate

_TOPIC = "advise-check"


def check_settings(
    asked: Asked,
    start: StartSystem = start_system,
    connect: Callable[[str, Mapping[str, str]], BrokerClient] = BrokerClient,
) -> None:
    """Start the system with the first value of each setting, and with the last, and make a topic. Raises UsageError.

    A setting that the system refuses or does not know is found here, and not in the middle of the search. An external
    system is not asked: its topics are somebody else's.
    """
    for candidate in _ends(asked):
        try:
            workload = asked.workload_of(candidate)
        except ValueError:
            continue  # these values cannot go together
        if workload.system.kind in ("external", "bare-loop"):
            return
        _try(asked, workload, start, connect)


def _ends(asked: Asked) -> list[Candidate]:
    settings = asked.space.settings
    return [tuple(setting.values[0] for setting in settings), tuple(setting.values[-1] for setting in settings)]


def _try(
    asked: Asked,
    workload: Workload,
    start: StartSystem,
    connect: Callable[[str, Mapping[str, str]], BrokerClient],
) -> None:
    with tempfile.TemporaryDirectory(prefix="highwater-advise-") as folder:
        data, logs = Path(folder, "data"), Path(folder, "logs")
        data.mkdir()
        logs.mkdir()
        try:
            with start(workload.system, [data], logs, lambda: None) as system:
                connect(system.bootstrap_servers, {}).create_topic(
                    _TOPIC, 1, workload.topics.config, replication=workload.topics.replication
                )
        except (UsageError, TrialError) as error:
            raise UsageError(f"{asked.file}: touch: the system does not take these settings: {error}") from None
