"""The models of what a system did beside its load: `start` and `restart` of a summary."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from highwater.results.base import Model


class Start(Model):
    """The time from the start of the system's processes to the load, and their peak of memory.

    CPU and memory are of the brokers' processes and those that they started; None where they run elsewhere.
    """

    ready_s: float = Field(
        description="until the system served; for a cluster until it had all brokers, ZooKeeper included"
    )
    cpu_s: float | None = Field(description="until it was ready")
    rss_bytes: int | None = Field(description="when it was ready")
    make_topics_s: float = Field(description="until every partition of the trial's topics had a leader")
    partitions: int = Field(description="of all topics of the trial")
    idle_rss_bytes: int | None = Field(description="after the creation of the topics and phases.rest")
    peak_rss_bytes: int | None = Field(default=None, description="peak of each broker until the end of the load")


class Restart(Model):
    """The end of the broker after the load, and its start on the same log."""

    how: Literal["kill", "stop"]
    ended_s: float = Field(description="until its process had ended")
    ready_s: float = Field(
        description="from the start of the process until every partition had its leader, the end offsets covered "
        "every record and one more was acknowledged"
    )
    cpu_s: float | None = Field(description="of the process that served, until it was ready")
    starts: int = Field(default=1, description="more than one: its process ended while it started")
