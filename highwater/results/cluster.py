"""The models of the hosts of an external cluster: their description, and their samples."""

from __future__ import annotations

from pydantic import Field

from highwater.results.base import Model
from highwater.results.host import HostUse
from highwater.results.storage import StorageTarget


class ClusterHostUse(Model):
    """One host of the cluster that a trial measured. None: not reported."""

    name: str
    cpu_count: int | None
    cpu_model: str | None
    memory_bytes: int | None
    kernel: str | None
    runs_in: str | None = Field(description="a container or virtual machine that it is")
    tuning_fingerprint: str | None
    storage: StorageTarget | None
    use: HostUse | None = Field(default=None, description="over the measured phase; None when it was not sampled")
    problem: str | None = Field(default=None, description="why its samples are missing, or do not tell all")
