"""The model of canaries: what the host could do at the start of each block of trials."""

from __future__ import annotations

from pydantic import Field

from highwater.results.base import Model


class CanaryReading(Model):
    """The time that fixed pieces of work took; less is better. None where a probe does not apply."""

    cpu_ns: int = Field(description="SHA-256 of 1 MiB")
    memory_ns: int = Field(description="copy of 32 MiB from memory to memory")
    disk_ns: int | None = Field(default=None, description="append of 4 KiB with fdatasync on the storage target")
    loopback_ns: int = Field(description="4 KiB to and fro over TCP on 127.0.0.1")


class BlockCanary(Model):
    block: int
    at_utc: str
    reading: CanaryReading
