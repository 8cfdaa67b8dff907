"""`make bench-broker`: runs workloads/broker-beside-kafka/ and writes one page of all results.

Each workload is an ordinary run of `highwater bench run`, with its result directory. This program only leaves out the
systems that the host lacks, adds the broker as Python, puts a share of Apache Kafka's highest rate into the latency
workloads, keeps a neighbour busy, and has the report's own code write the page (docs/bench-broker.md).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final

import typer
import yaml

from highwater.bench.commands.common import one_line_errors
from highwater.bench.systems.apache_kafka import find_distribution
from highwater.bench.workload.layers import merged, read_with_includes
from highwater.common.child_process import HIGHWATER
from highwater.common.compiled import machine_code
from highwater.common.errors import UsageError
from highwater.common.exit_codes import EXIT_DAMAGE, EXIT_INTERRUPTED, EXIT_INVALID, EXIT_OBJECTIVE, EXIT_OK, EXIT_USAGE
from highwater.common.quantities import parse_count
from highwater.reports import markdown
from highwater.results.files import ResultDirectoryError
from highwater.results.reader import RunResult
from tools.beside_kafka_page import several_document
from tools.neighbour import Neighbour, busy_neighbour

TITLE: Final = "Highwater's broker beside Apache Kafka"
PURPOSE: Final = (
    "Made by make bench-broker; docs/bench-broker.md says how it measures and how to read it. All systems ran on the "
    "same host, disk and day, one after the other in random order within each block. Absolute figures of small shared "
    "machines mean little."
)
# The order of the page; a ceiling comes before the latency that takes its rate.
WORKLOADS: Final = (
    "produce", "produce-large-batches", "produce-small-records", "one-record", "one-record-prepared", "consume",
    "catch-up", "durable", "latency-ceiling", "latency", "latency-busy", "memory", "restart", "partitions",
    "cluster-produce", "cluster-latency-ceiling", "cluster-latency", "cluster-failover", "cluster-shutdown",
    "cluster-memory",
)  # fmt: skip
CEILINGS: Final = {
    "latency": ("latency-ceiling", 0.5),
    "latency-busy": ("latency-ceiling", 0.8),
    "cluster-latency": ("cluster-latency-ceiling", 0.5),
}
"""By workload: which one finds Apache Kafka's highest rate, and the share of that rate to send."""
PYTHON: Final = "highwater-python"
NEIGHBOURS: Final = "neighbour.json"
"""By workload: the share of a processor that a neighbour took while it ran."""
_CHECKOUT: Final = Path(__file__).resolve().parents[1]
_FOLDER: Final = _CHECKOUT / "workloads" / "broker-beside-kafka"
_KAFKA: Final = "apache-kafka-"
_HIGHWATER: Final = "highwater"
_QUICK_PHASES: Final = {"warmup": "1s", "measure": "1s"}
_QUICK_SCALE: Final = 0.02
_QUICK_LEAST_RECORDS: Final = 1000

app = typer.Typer(add_completion=False)


@app.command()
def compare(
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Run this workload; may be repeated.")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials of each cell; as the workloads say.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Does it work? One small trial each, no page.")] = False,
    storage: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the systems keep their logs.")] = None,
    python: Annotated[bool, typer.Option("--python", help="The broker as Python too, not compiled.")] = False,
    neighbour: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="Another process takes this share of a processor.")
    ] = 0.0,
    results: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the result directories go.")] = None,
    page: Annotated[Path, typer.Option(metavar="FILE", help="The page.")] = Path("docs/results/broker-beside-kafka.md"),
    list_only: Annotated[bool, typer.Option("--list", help="List the workloads and end.")] = False,
    render: Annotated[bool, typer.Option("--render", help="Write the page again from --results.")] = False,
) -> None:
    """Measure Highwater's broker beside Apache Kafka on this host.

    Exit codes: 0 all measured, whatever came out; 2 usage error; 3 a trial failed or is invalid.
    """
    with one_line_errors():
        if list_only:
            for name in WORKLOADS:
                typer.echo(f"{name:26} {read_with_includes(_FOLDER / f'{name}.yaml').data['purpose']}")
            return
        for name in only or []:
            if name not in WORKLOADS:
                raise UsageError(f"unknown workload {name}; there are {', '.join(WORKLOADS)}")
        if results is None:
            if render:
                raise UsageError("--render needs --results DIR, with the results of an earlier run")
            results = Path("results") / f"bench-broker-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        wanted = [name for name in WORKLOADS if not only or name in only]
        if python and not render and (why := machine_code()[1]):
            raise UsageError(f"--python beside itself: the hot modules run as Python ({why})")
        failed = []
        if not render:
            with busy_neighbour(neighbour) as beside:
                failed = _measure(_with_ceilings(wanted), results, trials, storage, beside, python=python, quick=quick)
        _write_page(results, wanted, results / "page.md" if quick else page)
        if failed:
            typer.echo(f"some trials failed or are invalid: {', '.join(failed)}", err=True)
            raise typer.Exit(EXIT_DAMAGE)


def _with_ceilings(wanted: Sequence[str]) -> list[str]:
    needed = {*wanted, *(CEILINGS[name][0] for name in wanted if name in CEILINGS)}
    return [name for name in WORKLOADS if name in needed]


def _measure(
    wanted: Sequence[str],
    results: Path,
    trials: int | None,
    storage: Path | None,
    neighbour: Neighbour | None,
    *,
    python: bool,
    quick: bool,
) -> list[str]:
    """Workloads of which not all trials count. Raises UsageError when a run cannot start."""
    missing = _missing_systems()
    results.mkdir(parents=True, exist_ok=True)
    failed = []
    for number, name in enumerate(wanted, 1):
        typer.echo(f"== {name} ({number} of {len(wanted)})", err=True)
        data = read_with_includes(_FOLDER / f"{name}.yaml").data
        over = changes(data, missing, trials, storage, python=python, quick=quick)
        if over is None:
            typer.echo(f"bench-broker: {name} is left out: it needs what this host lacks", err=True)
            continue
        if name in CEILINGS:
            ceiling, share = CEILINGS[name]
            if rate_per_s := _share_of_rate(results / ceiling, share):
                over["load"] = {**over.get("load", {}), "rate": f"{rate_per_s}/s"}
        if neighbour is not None:
            over["purpose"] = purpose_beside(data["purpose"], neighbour.wanted_share)
        file = results / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"include": str(_FOLDER / f"{name}.yaml"), **over}), encoding="utf-8")
        command = [*HIGHWATER, "bench", "run", str(file), "--out", str(results / name)]
        share_taken = None if neighbour is None else neighbour.measure()
        done = subprocess.run([*command, "--launcher", "process"], check=False).returncode
        if done in (EXIT_USAGE, EXIT_INTERRUPTED):
            raise typer.Exit(done)
        if share_taken is not None:
            note_neighbour(results, name, share_taken())
        if done not in (EXIT_OK, EXIT_OBJECTIVE):
            failed.append(name)
            if done not in (EXIT_INVALID, EXIT_DAMAGE):
                raise typer.Exit(done)
    return failed


def purpose_beside(purpose: str, share: float) -> str:
    """The purpose of a workload that has a neighbour: it is in the run's manifest, and on its pages."""
    return f"{purpose} (Beside a neighbour: another process wants {_percent(share)} of a processor.)"


def note_neighbour(results: Path, workload: str, share: float) -> None:
    taken = {**_neighbours(results), workload: round(share, 3)}
    (results / NEIGHBOURS).write_text(json.dumps(taken, indent=2) + "\n", encoding="utf-8")


def _neighbours(results: Path) -> dict[str, float]:
    """Raises UsageError for a file that cannot be read."""
    try:
        text = (results / NEIGHBOURS).read_text(encoding="utf-8")
        return {str(name): float(share) for name, share in json.loads(text).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise UsageError(f"cannot read {results / NEIGHBOURS}: {error}; remove it to leave it out") from None


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %"


def purpose_of_page(results: Path, names: Sequence[str]) -> str:
    """Raises UsageError."""
    taken = {name: share for name, share in _neighbours(results).items() if name in names}
    if not taken:
        return PURPOSE
    shares = ", ".join(f"{_percent(share)} ({name})" for name, share in taken.items())
    return f"{PURPOSE} A neighbour ran beside these workloads, a process that took of one processor: {shares}."


def _missing_systems() -> frozenset[str]:
    """Variants that this host cannot run, with one line for each."""
    missing = set()
    for line in ("3.9", "4"):
        try:
            find_distribution(line)
        except UsageError as error:
            typer.echo(f"bench-broker: {_KAFKA}{line} is left out: {error}", err=True)
            missing.add(f"{_KAFKA}{line}")
    return frozenset(missing)


def changes(
    data: Mapping[str, Any],
    missing: frozenset[str],
    trials: int | None,
    storage: Path | None,
    *,
    python: bool = False,
    quick: bool,
) -> dict[str, Any] | None:
    """What is laid over a workload file: missing variants go, with the aims beside them. None when none is left.

    python: our broker becomes one more variant, as Python, with the aims of ours.
    """
    variants: dict[str, Any] = {name: None for name in data["variants"] if name in missing}
    left = [name for name in data["variants"] if name not in missing]
    if not left:
        return None
    is_python_too = python and _HIGHWATER in left
    if is_python_too:
        # The broker of a checkout that is named as a source runs as Python.
        variants[PYTHON] = merged(data["variants"][_HIGHWATER] or {}, {"system": {"source": str(_CHECKOUT)}})
    over: dict[str, Any] = {"variants": variants}
    if "aims" in data:
        aims = [{**aim, "beside": [name for name in aim["beside"] if name in left]} for aim in data["aims"]]
        if is_python_too:
            aims += [{**aim, "of": PYTHON} for aim in aims if aim["of"] == _HIGHWATER]
        over["aims"] = [aim for aim in aims if aim["beside"]]
    if trials is not None or quick:
        over["trials"] = {"n": trials or 1}
    if storage is not None:
        over["storage"] = {"target": "measured", "targets": {"measured": {"path": str(storage.absolute())}}}
    if quick:
        over["for_measurement"] = False
        faster = _quickly(data, left)
        if is_python_too and _HIGHWATER in (own := faster.get("variants", {})):
            own[PYTHON] = merged(variants[PYTHON], own[_HIGHWATER])
        over |= {**faster, "variants": variants | faster.get("variants", {})}
    return over


def _quickly(data: Mapping[str, Any], variants: Sequence[str]) -> dict[str, Any]:
    """Phases and amounts of a try. Faults keep their time: they need some to be seen in."""
    over: dict[str, Any] = {}
    if "faults" in data:
        return over
    warmed_up = data["phases"]["warmup"] != "0s"
    over["phases"] = _QUICK_PHASES if warmed_up else {"measure": "1s"}
    over["variants"] = {name: {"phases": {"warmup": "1s"}} if warmed_up else {} for name in variants}
    if "records" in data["load"]:
        over["load"] = {"records": _fewer(data["load"]["records"])}
        for name in variants:
            if "load" in (own := data["variants"][name] or {}):
                over["variants"][name]["load"] = {"records": _fewer(own["load"]["records"])}
    return over


def _fewer(records: object) -> int:
    return max(_QUICK_LEAST_RECORDS, round(parse_count(records) * _QUICK_SCALE))


def _share_of_rate(directory: Path, share: float) -> int | None:
    """A share of the lowest of the systems' rates, in records a second; None when nothing was measured."""
    try:
        cells = RunResult(directory).cells()
    except ResultDirectoryError:
        return None
    rates = [median(trial.summary.achieved_per_s for trial in found) for found in cells.values() if found]
    return max(1, round(min(rates) * share)) if rates else None


def _write_page(results: Path, wanted: Sequence[str], page: Path) -> None:
    """Raises UsageError when there is nothing to be written, or nowhere."""
    names = [name for name in wanted if (results / name / "manifest.json").is_file()]
    if not names:
        raise UsageError(f"{results} holds no results of these workloads")
    document = several_document(TITLE, purpose_of_page(results, names), [RunResult(results / name) for name in names])
    try:
        page.write_text(markdown.render(document), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {page}: {error.strerror or error}; name another --page") from None
    typer.echo(page)


if __name__ == "__main__":
    app()
