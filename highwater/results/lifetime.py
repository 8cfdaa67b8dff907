"""The models of what a system did beside its load: `start` and `restart` of a summary."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from highwater.results.base import Model


class Start(Model):
    """The time from the start of the system's processes to the load, and the most memory that they held.

    CPU and memory are of the brokers' processes and those that they started; None where they run elsewhere.
    """

    ready_s: float = Field(
        description="until the system served; of a cluster until all brokers were one, ZooKeeper's included"
    )
    cpu_s: float | None = Field(description="until then")
    rss_bytes: int | None = Field(description="as soon as it served")
    make_topics_s: float = Field(description="until every partition of the trial's topics had a leader")
    partitions: int = Field(description="of all topics of the trial")
    idle_rss_bytes: int | None = Field(description="with the topics made, after phases.rest")
    peak_rss_bytes: int | None = Field(default=None, description="the most until the load had ended, of each broker")


class Restart(Model):
    """The broker was ended once the load was over, and started again on its log."""

    how: Literal["kill", "stop"]
    ended_s: float = Field(description="until its process had ended")
    ready_s: float = Field(
        description="from the start of the process until every partition had its leader, the end offsets told every "
        "record and one more was acknowledged"
    )
    cpu_s: float | None = Field(description="until then, of the process that served")
    starts: int = Field(default=1, description="more than one: its process ended while it started")
