"""A calibration in use: read back, held against the host, asked for the ceilings of a load's tasks."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from highwater.bench.environment import describe_environment
from highwater.bench.workload.command_config import told_of
from highwater.common.errors import NotComparableError, UsageError
from highwater.common.quantities import format_size
from highwater.results.calibration import CALIBRATION_FILE, Calibration, ConsumerShape, GeneratorShape
from highwater.results.environment_key import Scalar, difference_text, environment_key, unequal
from highwater.results.files import ResultDirectoryError, parse
from highwater.spark_loadgen.model import LoadPlan, LoadResult
from highwater.spark_loadgen.records import FixedSize, Headers, RecordHeaders
from highwater.tuning.facts.model import Facts


def load_calibration(path: Path) -> Calibration:
    """The calibration in a file, or in the directory that `bench calibrate` wrote. Raises UsageError."""
    file = path / CALIBRATION_FILE if path.is_dir() else path
    try:
        return parse(Calibration, file.read_text("utf-8"), file)
    except OSError as error:
        raise UsageError(
            f"cannot read the calibration {file}: {error.strerror}; make one with: "
            "highwater bench calibrate [WORKLOAD] --out DIR"
        ) from None
    except (ResultDirectoryError, UnicodeDecodeError) as error:
        raise UsageError(f"no calibration: {error}") from None


def host_facts(facts: Facts, launcher_versions: Mapping[str, str]) -> dict[str, str | int | float | bool | None]:
    """What must be the same for a calibration to hold; storage is not part of it."""
    return environment_key(describe_environment(facts, launcher_versions, []), []).facts


def check_host(calibration: Calibration, host: Mapping[str, Scalar]) -> None:
    """Raises NotComparableError when it was taken under conditions other than `host` (`host_facts`)."""
    different = unequal(calibration.environment, host)
    if different:
        more = f", and {len(different) - 1} more facts" if len(different) > 1 else ""
        raise NotComparableError(
            f"the calibration of {calibration.created_utc} was taken elsewhere or before a change: "
            f"{difference_text(different[0])}{more}; calibrate anew"
        )


def calibration_for(calibration: Calibration | None, result: LoadResult) -> tuple[Calibration | None, list[str]]:
    """The calibration, if it holds for the hosts of a load's tasks; if not, a note that says so."""
    elsewhere = sorted({task.host for task in result.generator.tasks} - {socket.gethostname()})
    if calibration is None or not elsewhere:
        return calibration, []
    return None, [f"the calibration is of this host, and load tasks ran on {', '.join(elsewhere)}: no ceiling is known"]


def shape_of(plan: LoadPlan) -> GeneratorShape:
    """What the ceiling of a plan's producers depends on."""
    return GeneratorShape(
        driver=plan.driver,
        producers=plan.producers,
        partitions=plan.partitions * len(plan.topics),
        size=format_size(plan.sizes.bytes) if isinstance(plan.sizes, FixedSize) else repr(plan.sizes),
        payload=repr(plan.payload),
        keys=repr(plan.keys) if plan.keys is not None else "none",
        headers=_headers_text(plan.headers),
        transactions=repr(plan.transactions) if plan.transactions is not None else "none",
        # Nothing is calibrated over TLS, where a record costs more.
        client={**plan.producer_config, **told_of(plan.connection)},
    )


def _headers_text(headers: RecordHeaders) -> str:
    if isinstance(headers, Headers):
        return f"{headers.count} of {headers.bytes} bytes" if headers.count else "none"
    return repr(headers)


def consumer_shape_of(plan: LoadPlan) -> ConsumerShape:
    """What the ceiling of a plan's consumers depends on."""
    return ConsumerShape(
        groups=plan.groups,
        consumers_per_group=plan.consumers_per_group,
        client=dict(plan.consumer_config),
        checked=plan.check_delivery,
        records=shape_of(plan),
    )


def ceiling_per_s(calibration: Calibration | None, plan: LoadPlan) -> float | None:
    """The rate that the producers of a plan reach without a broker; None if this shape was not calibrated."""
    found = calibration.ceiling_of(shape_of(plan)) if calibration else None
    return found.ceiling_per_s if found is not None else None


def consumer_ceiling_per_s(calibration: Calibration | None, plan: LoadPlan) -> float | None:
    """What the consumers of a plan, all groups together, reach when all is there; None when that was not calibrated."""
    found = calibration.consumer_ceiling_of(consumer_shape_of(plan)) if calibration else None
    return found.ceiling_per_s if found is not None else None
