"""Where the load tasks of a workload publish live figures."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from highwater.bench.workload.clusters import host_and_port
from highwater.bench.workload.values import Part


def _addresses(text: str) -> str:
    for address in text.split(","):
        host_and_port(address.strip())
    return text


class Telemetry(Part):
    """It changes no figure, so it is no part of what makes two workloads the same."""

    control: Annotated[str, AfterValidator(_addresses)] = Field(
        description="HOST:PORT,… of a control broker that is not under test"
    )
    topic: str = Field(default="hw.telemetry", min_length=1, description="the topic for the messages of load tasks")
    config: str | None = Field(default=None, description="file with TLS and SASL properties for the control broker")
