"""Values for limits: open files, and what a service unit may use."""

from __future__ import annotations

from typing import Final

from ..facts import Facts
from ..model import Target
from ..workload import Workload

_KAFKA_NOFILE: Final = 100_000
# systemd's own default hard limit since version 240; a lower one would take something away.
SYSTEMD_NOFILE_HARD: Final = 524_288


def nofile(_facts: Facts, workload: Workload, _name: str) -> Target:
    files = round(1.2 * (3 * workload.segments + workload.connections))
    return Target(
        max(_KAFKA_NOFILE, files),
        f"{_KAFKA_NOFILE}, 1.2 × (3 files × {workload.segments} segments "
        f"+ {workload.connections} connections) = {files}",
    )


def nr_open(facts: Facts, workload: Workload, name: str) -> Target:
    wanted = nofile(facts, workload, name).value
    assert isinstance(wanted, int)
    value = max(wanted, SYSTEMD_NOFILE_HARD)
    return Target(value, f"{SYSTEMD_NOFILE_HARD} (systemd's hard limit), {wanted} (unit.limit_nofile)")
