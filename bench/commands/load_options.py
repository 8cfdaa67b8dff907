"""The options of `bench run`, `plan` and `search` that give a load in one line, as a panel of --help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

_PANEL: Final = "Load in one line (instead of FILE, or over it; commas make an axis)"


def _option(name: str, metavar: str, meaning: str) -> Any:
    return typer.Option(name, metavar=metavar, help=meaning, rich_help_panel=_PANEL)


@dataclass(frozen=True)
class LoadOptions:
    rate: Annotated[str | None, _option("--rate", "3k/s,…", "Records per second of all producers.")] = None
    size: Annotated[str | None, _option("--size", "500B,…", "Size of a record's value; default: 1KiB.")] = None
    for_: Annotated[str | None, _option("--for", "20s,…", "Measured phase of a trial; default: 20s.")] = None
    warmup: Annotated[str | None, _option("--warmup", "5s,…", "Warm-up before the measured phase; default: 5s.")] = None
    acks: Annotated[
        str | None, _option("--acks", "1,all,…", "Acknowledgements that producers wait for; default: all.")
    ] = None
    compression: Annotated[
        str | None, _option("--compression", "none,lz4,…", "The producers' compression.type; default: none.")
    ] = None
    batch_size: Annotated[str | None, _option("--batch-size", "64KiB,…", "The producers' batch.size.")] = None
    linger: Annotated[str | None, _option("--linger", "5ms,…", "The producers' linger.ms; default: 5ms.")] = None
    partitions: Annotated[str | None, _option("--partitions", "4,…", "Partitions of the topic; default: 4.")] = None
    producers: Annotated[str | None, _option("--producers", "1,…", "Number of producers; default: 1.")] = None
    consumers: Annotated[str | None, _option("--consumers", "1,…", "Consumers of one group; default: 1.")] = None
    system: Annotated[
        str | None,
        _option("--system", "highwater,…", "System to measure: highwater, apache-kafka or bare-loop."),
    ] = None

    def given(self) -> dict[str, str]:
        """Option -> value of those that were given."""
        values = {f"--{name.strip('_').replace('_', '-')}": value for name, value in vars(self).items()}
        return {option: value for option, value in values.items() if value is not None}
