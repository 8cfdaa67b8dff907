"""What was compared, how, and where it ran: the parts of the report that are read from records rather than computed."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import yaml

from bench.results import RunResult, TrialSummary
from reports.cells import Run
from reports.quantity import NONE, NS_PER_MS, NS_PER_US, bytes_text, plural, significant, whole

_MOST_SEEN: Final = 4
_ACRONYMS: Final = {
    "cpu": "CPU",
    "cpus": "CPUs",
    "os": "OS",
    "thp": "THP",
    "vm": "VM",
    "id": "ID",
    "utc": "UTC",
    "tcp": "TCP",
    "numa": "NUMA",
}


@dataclass(frozen=True)
class Section:
    title: str
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class TrialRow:
    state: str
    values: Sequence[str]


class TrialColumn(NamedTuple):
    title: str
    unit: str = ""
    hint: str = ""
    text: bool = False


TRIAL_COLUMNS: Final = (
    TrialColumn("#"),
    TrialColumn("block"),
    TrialColumn("cell", text=True),
    TrialColumn("trial"),
    TrialColumn("started", "UTC", text=True),
    TrialColumn("verdict", text=True),
    TrialColumn("achieved", "% of offered"),
    TrialColumn("gen. CPU", "cores", "busiest worker process of the load generator"),
    TrialColumn("lateness", "p99, ms", "send − intended send"),
    TrialColumn("start skew", "ms", "latest minus earliest first send"),
    TrialColumn("clocks", "spread, ms", "largest difference between the clocks of the load tasks"),
    TrialColumn("produce", "samples"),
    TrialColumn("end to end", "samples"),
    TrialColumn("sent", "records"),
    TrialColumn("acked", "records"),
    TrialColumn("received", "records"),
    TrialColumn("in log", "records", "counted by a client that took no part in the load"),
    TrialColumn("reordered", "records"),
    TrialColumn("corrupt", "records"),
)


def trial_rows(run: Run) -> list[TrialRow]:
    """Every trial of the plan in the order in which it ran, with the evidence that its verdict rests on."""
    finished = {t.summary.trial_id: t.summary for t in run.result.trials}
    labels = {cell.key: cell.label for cell in run.cells}
    rows = []
    in_order = sorted(run.result.manifest.trials, key=lambda plan: (plan.block, plan.order_in_block))
    for number, plan in enumerate(in_order, start=1):
        start = [str(number), str(plan.block), labels[plan.cell], str(plan.trial)]
        summary = finished.get(plan.trial_id)
        if summary is None:
            rows.append(
                TrialRow("no result", [*start, NONE, f"{plan.status}, no result", *[NONE] * (len(TRIAL_COLUMNS) - 6)])
            )
        else:
            rows.append(TrialRow(summary.verdict.state, [*start, *_evidence(summary)]))
    return rows


def _evidence(summary: TrialSummary) -> list[str]:
    generator, delivery = summary.generator, summary.delivery
    return [
        summary.started_utc[:19].replace("T", " "),
        summary.verdict.state,
        significant(100 * summary.achieved_per_s / summary.offered_per_s, 4) if summary.offered_per_s else NONE,
        significant(generator.cpu_ratio_max),
        significant(summary.produce.send_delay_ns.p99 / NS_PER_MS),
        significant(generator.start_skew_ns / NS_PER_MS),
        significant(generator.clock_spread_ns / NS_PER_MS),
        whole(summary.produce.response_ns.count),
        whole(summary.e2e.response_ns.count) if summary.e2e else NONE,
        *(whole(n) for n in (delivery.sent, delivery.acked, delivery.received, delivery.in_log)),
        whole(delivery.reordered),
        whole(delivery.corrupt),
    ]


def workload_text(workload: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(workload), sort_keys=False, allow_unicode=True, default_flow_style=False, width=100)


def how_compared(run: Run) -> Section:
    manifest = run.result.manifest
    blocks = len({plan.block for plan in manifest.trials})
    rows = [
        ("Workload file", manifest.workload_file),
        ("SHA-256 of the expanded workload", manifest.workload_sha256),
        (
            "Cells × trials",
            f"{plural(len(run.cells), 'cell')}, {plural(len(manifest.trials), 'trial')} in {plural(blocks, 'block')}",
        ),
        ("Order", f"cells in random order within each block, seed {manifest.seed}"),
        ("Factors", "; ".join(f"{k}: {', '.join(map(str, v))}" for k, v in manifest.axes.items()) or "none: one cell"),
        ("Started, finished", f"{manifest.created_utc}, {manifest.finished_utc or 'not finished'}"),
    ]
    summaries = [t.summary for t in run.result.trials]
    rows += _seen("Load generator", (_generator_text(s) for s in summaries))
    rows += _seen("Generator CPU per record", (_generator_cost(s) for s in summaries))
    clocks = {"same_host_monotonic": "one monotonic clock of one host", "wall_clock": "wall clocks of several hosts"}
    rows += _seen(
        "Clock of end-to-end latency",
        (f"{clocks[s.e2e.clock]}, {plural(s.e2e.negative_samples, 'negative sample')}" for s in summaries if s.e2e),
    )
    return Section("How it was compared", rows)


def _generator_text(summary: TrialSummary) -> str:
    g = summary.generator
    counts = (plural(g.producers, "producer"), plural(g.consumers, "consumer"), plural(g.slots, "slot"))
    return f"{g.launcher}, {', '.join(counts)}"


def _generator_cost(summary: TrialSummary) -> str:
    g = summary.generator
    producer = f"producer {significant(g.producer_cpu_ns_per_record / NS_PER_US)} µs"
    consumer = f"consumer {significant(g.consumer_cpu_ns_per_record / NS_PER_US)} µs"
    return f"{producer}, {consumer}" if g.consumers else producer


def _seen(label: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    """One row with every different text, the first few of them when there are many."""
    found = list(dict.fromkeys(texts))
    more = [f"and {len(found) - _MOST_SEEN} more"] if len(found) > _MOST_SEEN else []
    return [(label, "; ".join([*found[:_MOST_SEEN], *more]))] if found else []


def system_sections(run: Run) -> list[Section]:
    """The system under test and its storage as they really ran, each difference between trials spelled out."""
    summaries = [t.summary for t in run.result.trials]
    if not summaries:
        return []
    system = [
        *_seen("System under test", (f"{s.system.kind} {s.system.version}" for s in summaries)),
        *_seen("Command", (shlex.join(s.system.command) for s in summaries[:1] if s.system.command)),
    ]
    keys = sorted({key for s in summaries for key in s.system.effective_config})
    system += [row for key in keys for row in _seen(key, (s.system.effective_config.get(key, NONE) for s in summaries))]
    storage = []
    for target in {s.storage.name: s.storage for s in summaries}.values():
        text = [
            ("medium unknown" if target.medium == "unknown" else target.medium)
            + (" (emulated)" if target.emulated else ""),
            target.path,
            target.filesystem or "unknown file system",
        ]
        text += [
            part for part in (target.device, target.model, target.scheduler and f"scheduler {target.scheduler}") if part
        ]
        storage.append((target.name, "; ".join([*text, ",".join(target.mount_options)])))
    return [Section("System under test", system), Section("Storage targets", storage)]


def environment_sections(result: RunResult) -> list[Section]:
    """The facts of env.json, whatever they are: one section for each branch at the top of the tree."""
    loose: list[tuple[str, str]] = []
    sections: list[Section] = []
    for key, value in result.environment.facts.items():
        if key == "versions":
            continue
        if isinstance(value, Mapping) and value:
            sections.append(Section(_words(key), list(_flattened(value))))
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            sections.append(Section(_words(key), [_listed(i, item) for i, item in enumerate(value, start=1)]))
        else:
            loose.append((_words(key), _text(key, value)))
    versions = list(_versions(result).items())
    first = [Section("Versions", versions)] if versions else []
    return [*first, *([Section("Host", loose)] if loose else []), *sections]


def _versions(result: RunResult) -> dict[str, str]:
    """Of the manifest and of the environment together: both tell, and mostly the same."""
    told = result.environment.facts.get("versions")
    found = {str(k): _text("", v) for k, v in told.items()} if isinstance(told, Mapping) else {}
    found.update(result.manifest.versions)
    if result.manifest.git:
        git = result.manifest.git
        found["commit"] = git.commit + (" with uncommitted changes" if git.dirty else "")
    return found


def _listed(number: int, item: Mapping[str, Any]) -> tuple[str, str]:
    """An entry of a list, under the name it gives itself or else its number."""
    named = next((key for key in ("name", "id", "mount_point", "path") if isinstance(item.get(key), str)), None)
    rest = {key: value for key, value in item.items() if key != named}
    return (str(item[named]) if named else str(number)), _text("", rest)


def _flattened(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flattened(value, f"{name}.")
        else:
            # A dotted or slashed name is somebody's key (a sysctl, a property): it is shown as they write it.
            yield (name if "." in name or "/" in name else _words(name)), _text(name, value)


def _text(key: str, value: Any) -> str:
    if value is None or value in ({}, [], ""):
        return NONE if value is None else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if key.endswith("_bytes") and value >= 1024:
            return f"{bytes_text(value)} ({value:,})"
        return significant(value) if isinstance(value, float) else str(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{_lower(str(k))} {_text(str(k), v)}" for k, v in value.items() if v is not None)
    if isinstance(value, list):
        return ", ".join(_text(key, item) for item in value)
    return str(value)


def _words(key: str) -> str:
    """A key of ours as words: cpu_count is "CPU count", total_bytes is "Total"."""
    words = _lower(key)
    return words[:1].upper() + words[1:]


def _lower(key: str) -> str:
    return " ".join(_ACRONYMS.get(part, part) for part in key.removesuffix("_bytes").split("_"))


@dataclass(frozen=True)
class TuningRow:
    knob: str
    title: str
    state: str
    current: str
    recommended: str
    reason: str


def tuning_rows(result: RunResult) -> list[TuningRow]:
    """The tuning check as it was recorded; like every fact of the environment, any part of it may be missing."""

    def text(row: Mapping[str, Any], *keys: str) -> str:
        return next((_text("", row[key]) for key in keys if row.get(key) not in (None, "")), "")

    return [
        TuningRow(
            knob=" ".join(filter(None, (text(row, "id"), text(row, "target")))),
            title=text(row, "title"),
            state=text(row, "state").replace("_", " "),
            current=text(row, "current_text", "current"),
            recommended=text(row, "recommended_text", "recommended"),
            reason=" ".join(filter(None, (text(row, "reason"), _sentence(text(row, "note"))))),
        )
        for row in result.environment.tuning
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}." if text else ""


def command_to_repeat(result: RunResult) -> str:
    """For a POSIX shell; every part quoted, so that it can be pasted whatever the names hold."""
    manifest = result.manifest
    return f"cd {shlex.quote(manifest.cwd)} && \\\n{shlex.join(manifest.argv)}"


def checksums(result: RunResult) -> str:
    """SHA-256 of the result files in the form that `sha256sum --check` reads."""
    lines = []
    for path in result.files():
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append(f"{digest}  {path.relative_to(result.directory).as_posix()}\n")
    return "".join(lines)
