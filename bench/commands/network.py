"""`bench network`: measures the network between this host and another. Imports are late so that --help is fast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import AsJson, one_line_errors

if TYPE_CHECKING:
    from highwater.results.network import NetworkProbe, NetworkTrial

# Above this, one thread of iperf3 may be the limit, and not the network.
_BUSY_RATIO = 0.9


def network(
    host: Annotated[str, typer.Argument(metavar="HOST", help="The other host, where iperf3 --server runs.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the probe in this new file, for plan --network.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of iperf3 there.")] = 5201,
    trials: Annotated[int, typer.Option(min=1, max=100, help="How many times both ways are measured.")] = 5,
    seconds: Annotated[int, typer.Option(min=1, max=3600, metavar="S", help="Duration of a trial.")] = 5,
    streams: Annotated[int, typer.Option(min=1, max=64, help="TCP connections each way.")] = 4,
    as_json: AsJson = False,
) -> None:
    """Measure with iperf3 what the network carries both ways at once.

    HOST runs iperf3 --server, which serves whoever reaches its port: bind it to an address of the brokers' network, and
    end it afterwards.
    """
    with one_line_errors():
        from highwater.bench.iperf3 import Iperf3Error, probe
        from highwater.common.atomic_files import write_atomically
        from highwater.common.errors import UsageError
        from highwater.results.files import dump

        if out is not None and out.exists():
            raise UsageError(f"--out: {out} exists; name a new file")
        try:
            found = probe(host, port, trials=trials, trial_s=seconds, streams=streams, on_trial=_show)
        except Iperf3Error as error:
            raise UsageError(str(error)) from None
        if out is not None:
            try:
                write_atomically(out, dump(found))
            except OSError as error:
                raise UsageError(f"--out: {out}: cannot write it: {error.strerror or error}") from None
        typer.echo(dump(found).rstrip() if as_json else answer(host, found))
        if out is not None and found.leaves_host:
            typer.echo(f"{out}: the probe; now: highwater plan LOAD --network {out}", err=True)


def answer(host: str, found: NetworkProbe) -> str:
    """What the network carried, in one line, and in a second one what limited it if that was not the network."""
    from statistics import median

    from highwater.common.units import plural
    from highwater.tuning.quantities import format_bit_rate

    bits_per_s = [8 * trial.bytes_per_s for trial in found.trials]
    told = f"{host}: {format_bit_rate(median(bits_per_s))} each way, both at once"
    if len(bits_per_s) > 1:
        low, high = format_bit_rate(min(bits_per_s)), format_bit_rate(max(bits_per_s))
        told += f" ({plural(len(bits_per_s), 'trial')}: {low} to {high})"
    if not found.leaves_host:
        return f"{told}\nno network: {host} is this host, and no plan takes the file"
    if max(trial.cpu_ratio for trial in found.trials) > _BUSY_RATIO:
        return f"{told}\nthe network may carry more: iperf3 used a whole core"
    return told


def _show(trial: NetworkTrial) -> None:
    from highwater.tuning.quantities import format_bit_rate

    sent, received = (format_bit_rate(8 * rate) for rate in (trial.sent_bytes_per_s, trial.received_bytes_per_s))
    typer.echo(f"sent {sent}, received {received}, {trial.retransmits} retransmits", err=True)
