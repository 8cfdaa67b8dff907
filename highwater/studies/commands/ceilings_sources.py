"""Reads what `plan --ceilings` names, or the reference hosts that come with Highwater."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError
from highwater.results.files import ResultDirectoryError, parse
from highwater.results.network import NetworkProbe
from highwater.results.reader import RunResult
from highwater.studies.capacity.ceilings import Measured
from highwater.studies.capacity.load import Load
from highwater.studies.capacity.measured import measured_of
from highwater.studies.capacity.nearest import PlannedHost, nearest, planned_host
from highwater.studies.capacity.reference_file import ReferenceFile, parse_reference
from highwater.tuning.facts import collect
from highwater.tuning.quantities import format_bit_rate

REFERENCES: Final = Path(__file__).parent.parent / "references"


def measured_for(load: Load, named: Sequence[Path] | None) -> Measured:
    """What `named` says of the planned hosts: result directories, or published files, or folders of them.

    named: None for the reference hosts that come with Highwater. Raises UsageError.
    """
    results = results_of(named or [])
    published = [path for path in named or [REFERENCES] if not _is_result(path)]
    if results and published:
        raise UsageError(
            f"--ceilings: {results[0].directory} is a result directory and {published[0]} is not: plan from results of "
            "your host, or from published files"
        )
    if results:
        return measured_of(results)
    return nearest([each for path in published for each in _read(path)], planned_host(load, _this_host()))


def reference_for_this_host() -> Measured:
    """The nearest reference host that comes with Highwater. Raises UsageError if none is near enough."""
    return nearest(_read(REFERENCES), _this_host())


def results_of(named: Sequence[Path]) -> list[RunResult]:
    """Those of `named` that are result directories. Raises UsageError."""
    return [RunResult(path) for path in named if _is_result(path)]


def network_bytes_per_s(load: Load, named: Sequence[Path]) -> tuple[float, ...]:
    """The rates of all trials in files of `bench network`. Raises UsageError."""
    probes = [_probe(file) for file in named]
    rates = tuple(trial.bytes_per_s for probe in probes for trial in probe.trials)
    link = load.hosts.network_bytes_per_s
    if rates and max(rates) > link:
        raise UsageError(
            f"--network: {', '.join(map(str, named))}: {format_bit_rate(max(rates) * 8)} were measured, and "
            f"hosts.network says {format_bit_rate(link * 8)}: measure between hosts like the planned ones, or correct "
            "the load file"
        )
    return rates


def _probe(file: Path) -> NetworkProbe:
    try:
        probe = parse(NetworkProbe, file.read_text("utf-8"), file)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--network: cannot read {file}: {getattr(error, 'strerror', None) or error}") from None
    except ResultDirectoryError as error:
        raise UsageError(f"--network: {error}; highwater bench network HOST --out FILE writes one") from None
    if not probe.leaves_host:
        raise UsageError(
            f"--network: {file}: {probe.remote_address} was the measuring host itself: measure from another host"
        )
    return probe


def _is_result(path: Path) -> bool:
    return (path.is_dir() and not any(path.glob("*.json"))) or (path / "manifest.json").exists()


def _read(path: Path) -> list[ReferenceFile]:
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    return [_read_file(file) for file in files]


def _read_file(file: Path) -> ReferenceFile:
    try:
        return parse_reference(file.read_text("utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(f"{file}: cannot read it: {reason}") from None


def _this_host() -> PlannedHost:
    facts = collect()
    memory = facts.memory.total_bytes
    return PlannedHost(facts.cpu_model, facts.cpu_count, memory, facts.kernel_release, platform.machine())
