"""The options of `bench run`, `plan` and `search` that give a load in one line, as a panel of --help."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

_PANEL: Final = "Load in one line (instead of FILE, or over it; commas make an axis)"


def _option(name: str, metavar: str, meaning: str) -> Any:
    return typer.Option(name, metavar=metavar, help=meaning, rich_help_panel=_PANEL)


Rate = Annotated[str | None, _option("--rate", "3k/s,…", "Records per second of all producers.")]
Size = Annotated[str | None, _option("--size", "500B,…", "Size of a record's value; default: 1KiB.")]
Measure = Annotated[str | None, _option("--for", "20s,…", "Measured phase of a trial; default: 20s.")]
Warmup = Annotated[str | None, _option("--warmup", "5s,…", "Load before it; default: 5s.")]
Acks = Annotated[str | None, _option("--acks", "1,all,…", "Acknowledgements; default: all.")]
Compression = Annotated[str | None, _option("--compression", "none,lz4,…", "compression.type; default: none.")]
BatchSize = Annotated[str | None, _option("--batch-size", "64KiB,…", "batch.size.")]
Linger = Annotated[str | None, _option("--linger", "5ms,…", "linger.ms; default: 5ms.")]
Partitions = Annotated[str | None, _option("--partitions", "4,…", "Partitions of the topic; default: 4.")]
Producers = Annotated[str | None, _option("--producers", "1,…", "Number of producers; default: 1.")]
Consumers = Annotated[str | None, _option("--consumers", "1,…", "Consumers of one group; default: 1.")]
System = Annotated[str | None, _option("--system", "highwater,…", "highwater, apache-kafka or bare-loop.")]


def load_in_one_line(context: typer.Context) -> dict[str, str]:
    """Option -> value of the options above that were given."""
    from highwater.bench.workload.one_line import OPTIONS

    names = {name: parameter.name for parameter in context.command.params for name in parameter.opts}
    values = {option: context.params.get(names.get(option) or "") for option in OPTIONS}
    return {option: value for option, value in values.items() if value is not None}
