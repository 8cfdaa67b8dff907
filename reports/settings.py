"""What was compared, how, and where: the parts of a report that are read from records."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml

from highwater.common.units import NONE, count_text, duration_text, percent_text, plural, significant, size_text
from highwater.drawing.quantity import NS_PER_MS, NS_PER_S, NS_PER_US, as_sentence
from highwater.reports.blocks import Block, Column, FactColumns, Facts, Field, Row, Table, Tone, table
from highwater.reports.cells import Run
from highwater.reports.overview import STATE_TONES
from highwater.reports.storage import target_label
from highwater.results.cluster import ClusterHostUse
from highwater.results.models import EndToEnd, Generator, TrialSummary
from highwater.results.reader import RunResult
from highwater.results.storage import StorageTarget

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


_TRIAL_COLUMNS: Final = (
    Column("#"),
    Column("block"),
    Column("cell", text=True),
    Column("trial"),
    Column("started", "UTC", text=True),
    Column("verdict", text=True),
    Column("achieved", "% of offered"),
    Column("gen. CPU", "cores", "busiest worker process of the load generator"),
    Column("lateness", "p99, ms", "send − intended send"),
    Column("start skew", "ms", "latest minus earliest first send"),
    Column("clocks", "spread, ms", "largest difference between the clocks of the load tasks"),
    Column("produce", "samples"),
    Column("end to end", "samples"),
    Column("sent", "records"),
    Column("acked", "records"),
    Column("received", "records"),
    Column("in log", "records", "counted by a client that took no part in the load"),
    Column("reordered", "records"),
    Column("corrupt", "records"),
)
_ROLES: Final = {"measure": "", "a_a": " (A/A twin)"}
# Only results of older versions have the last one.
_CLOCKS: Final = {
    "same_host_monotonic": "one monotonic clock of one host",
    "measured_offset": "clocks of several hosts, their offsets measured",
    "wall_clock": "wall clocks of several hosts",
}

_DRIVERS: Final = {
    "client": "librdkafka",
    "wire": "pre-encoded batches on sockets",
    "rdkafka_performance": "rdkafka_performance, librdkafka's own program",
    "wire_load": "one prepared request over and over, by a C program",
}


def trial_table(run: Run) -> Table:
    """Every planned trial in the order of running, with the evidence for its verdict."""
    finished = {t.summary.trial_id: t.summary for t in run.result.trials}
    rows = []
    in_order = sorted(run.result.manifest.trials, key=lambda plan: (plan.block, plan.order_in_block))
    for number, plan in enumerate(in_order, start=1):
        start = [str(number), str(plan.block), run.label(plan.cell) + _ROLES[plan.role], str(plan.trial)]
        summary = finished.get(plan.trial_id)
        if summary is None:
            tone: Tone = "none" if plan.status == "skipped" else "bad"
            state = Field("left out" if plan.status == "skipped" else f"{plan.status}, no result", tone=tone)
            missing = [Field(NONE)] * (len(_TRIAL_COLUMNS) - 6)
            rows.append(Row([*map(Field, start), Field(NONE), state, *missing]))
        else:
            verdict = Field(summary.verdict.state, tone=STATE_TONES.get(summary.verdict.state, "warn"))
            when = Field(summary.started_utc[:19].replace("T", " "))
            rows.append(Row([*map(Field, start), when, verdict, *map(Field, _evidence(summary))]))
    return Table(_TRIAL_COLUMNS, rows, label="Every trial with the evidence for its verdict", wide=True, sortable=True)


def _evidence(summary: TrialSummary) -> list[str]:
    generator, delivery = summary.generator, summary.delivery
    return [
        significant(100 * summary.achieved_per_s / summary.offered_per_s, 4) if summary.offered_per_s else NONE,
        significant(generator.cpu_ratio_max),
        significant(summary.produce.send_delay_ns.p99 / NS_PER_MS) if summary.produce.send_delay_ns.count else NONE,
        significant(generator.start_skew_ns / NS_PER_MS),
        significant(generator.clock_spread_ns / NS_PER_MS),
        count_text(summary.produce.response_ns.count),
        count_text(summary.e2e.response_ns.count) if summary.e2e else NONE,
        *(count_text(n) for n in (delivery.sent, delivery.acked, delivery.received, delivery.in_log)),
        count_text(delivery.reordered),
        count_text(delivery.corrupt),
    ]


def workload_text(workload: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(workload), sort_keys=False, allow_unicode=True, default_flow_style=False, width=100)


def how_compared(run: Run) -> list[Block]:
    """A summary of what was compared, on which systems and hosts, and how."""
    summaries = [t.summary for cell in run.cells for t in cell.trials]
    return [FactColumns([Facts("What", _what(run, summaries)), Facts("How", _how(run, summaries))])]


def _what(run: Run, summaries: Sequence[TrialSummary]) -> list[tuple[str, str]]:
    manifest, facts = run.result.manifest, run.result.environment.facts
    rows = [
        ("Factors", "; ".join(f"{k}: {', '.join(map(str, v))}" for k, v in manifest.axes.items()) or "none: one cell"),
    ]
    rows += _seen("System under test", (f"{s.system.kind} {s.system.version}" for s in summaries))
    rows += _seen("Storage", (_storage_text(s.storage) for s in summaries))
    rows += _seen("Hosts of brokers", dict.fromkeys(_host_text(h) for s in summaries for h in s.cluster_hosts))
    memory = facts.get("memory")
    total = memory.get("total_bytes") if isinstance(memory, Mapping) else None
    host = [str(facts[key]) for key in ("cpu_model", "operating_system", "kernel_release", "machine") if facts.get(key)]
    if isinstance(facts.get("cpu_count"), int):
        host.insert(1, plural(facts["cpu_count"], "CPU"))
    if isinstance(total, int):
        host.append(f"{size_text(total)} memory")
    rows += [("Host", ", ".join(host))] if host else []
    kinds = {"virtual_machine": "Virtual machine", "container": "Container"}
    rows += [(name, str(facts[key])) for key, name in kinds.items() if facts.get(key)]
    rows += _seen("Host profile", (_profile_text(s) for s in summaries if s.host_profile))
    return rows


def _how(run: Run, summaries: Sequence[TrialSummary]) -> list[tuple[str, str]]:
    manifest = run.result.manifest
    measured = [plan for plan in manifest.trials if plan.role == "measure"]
    twins = len([plan for plan in manifest.trials if plan.role == "a_a"])
    blocks = len({plan.block for plan in manifest.trials})
    cells = f"{plural(len(run.cells), 'cell')}, {plural(len(measured), 'trial')} in {plural(blocks, 'block')}"
    rows = [
        ("Cells × trials", cells + (f", {plural(twins, 'A/A twin')}" if twins else "")),
        ("Order", f"cells in random order within each block, seed {manifest.seed}"),
    ]
    rows += _seen("Load", _load_texts(summaries))
    rows += _seen("Load generator", (_generator_text(s) for s in summaries))
    rows += _generator_cost(summaries)
    rows += _seen("Clock of end-to-end latency", (_clock_text(s.generator, s.e2e) for s in summaries if s.e2e))
    if manifest.overhead:
        o = manifest.overhead
        share = f"{percent_text(o.ratio)} of {duration_text(o.wall_s)}"
        rows.append(("Time beside the load", f"{share}; most of it: {_largest_steps(o.steps_s)}"))
    rows += [
        ("Started, finished", f"{manifest.created_utc}, {manifest.finished_utc or 'not finished'}"),
        ("Workload file", manifest.workload_file),
        ("SHA-256 of the expanded workload", manifest.workload_sha256),
    ]
    return rows


def _clock_text(generator: Generator, e2e: EndToEnd) -> str:
    clock = _CLOCKS[e2e.clock]
    if e2e.clock == "measured_offset":
        error, drift = (duration_text(ns / NS_PER_S) for ns in (generator.clock_error_ns, generator.clock_drift_ns))
        clock += f" (±{error} at the start, moved by {drift} until the end)"
    return f"{clock}, {plural(e2e.negative_samples, 'negative sample')}"


def _largest_steps(steps_s: Mapping[str, float], most: int = 3) -> str:
    beside = {name: s for name, s in steps_s.items() if name != "load"}
    largest = sorted(beside.items(), key=lambda item: -item[1])[:most]
    return ", ".join(f"{name.replace('_', ' ')} {duration_text(s)}" for name, s in largest) or NONE


def _load_texts(summaries: Iterable[TrialSummary]) -> Iterable[str]:
    """One text for each length of the measured phase, with all its offered rates."""
    offered: dict[str, list[float | None]] = {}
    for summary in summaries:
        measured = next(p for p in summary.phases if p.name == "measure")
        seconds = f"{duration_text(measured.end_s - measured.start_s)} measured"
        offered.setdefault(seconds, []).append(summary.offered_per_s)
    for seconds, found in offered.items():
        if rates := sorted({rate for rate in found if rate is not None}):
            yield f"open loop, {', '.join(map(count_text, rates))} records/s, {seconds}"
        if None in found:
            yield f"closed loop, as fast as the client takes it, {seconds}"


def _medium_text(target: StorageTarget) -> str:
    return "medium unknown" if target.medium == "unknown" else target.medium


def _storage_text(target: StorageTarget) -> str:
    parts = [
        target_label(target),
        _medium_text(target),
        target.model or target.device,
        target.filesystem,
        target.emulation,
    ]
    return ", ".join(filter(None, parts))


def _host_text(host: ClusterHostUse) -> str:
    """One host of an external cluster, without its storage."""
    parts = [
        host.name,
        host.cpu_count and plural(host.cpu_count, "CPU"),
        host.memory_bytes and f"{size_text(host.memory_bytes)} memory",
        host.runs_in,
        host.problem and f"not sampled throughout: {host.problem}",
    ]
    return ", ".join(str(part) for part in parts if part)


def _profile_text(summary: TrialSummary) -> str:
    profile = summary.host_profile
    if profile is None or profile.name == "none":
        return "none"
    held = "held throughout" if profile.verified else "did NOT hold throughout"
    back = "rolled back" if profile.rolled_back else "NOT rolled back"
    return f"{profile.name}: {plural(len(profile.applied), 'setting')}, {held}, {back}"


def _generator_text(summary: TrialSummary) -> str:
    g = summary.generator
    driver = _DRIVERS[summary.driver]
    counts = (driver, plural(g.producers, "producer"), plural(g.consumers, "consumer"), plural(g.slots, "slot"))
    hosts = f", on {', '.join(g.hosts())}" if g.tasks else ""
    return f"{g.launcher}, {', '.join(counts)}{hosts}"


def _generator_cost(summaries: Sequence[TrialSummary]) -> list[tuple[str, str]]:
    costs = {
        "producer": [s.generator.producer_cpu_ns_per_record for s in summaries],
        "consumer": [s.generator.consumer_cpu_ns_per_record for s in summaries if s.generator.consumers],
    }
    texts = []
    for name, found in costs.items():
        if found:
            low, high = (significant(f(found) / NS_PER_US) for f in (min, max))
            texts.append(f"{name} {low if low == high else f'{low}–{high}'} µs")
    return [("Generator CPU per record", ", ".join(texts))] if texts else []


def _seen(label: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    """One row with all different texts, or the first few if there are many."""
    found = list(dict.fromkeys(texts))
    more = [f"and {len(found) - _MOST_SEEN} more"] if len(found) > _MOST_SEEN else []
    return [(label, "; ".join([*found[:_MOST_SEEN], *more]))] if found else []


def system_facts(run: Run) -> list[Facts]:
    """The system under test and its storage as they ran, with all differences between trials."""
    summaries = [t.summary for t in run.result.trials]
    if not summaries:
        return []
    system = [
        *_seen("System under test", (f"{s.system.kind} {s.system.version}" for s in summaries)),
        *_seen("Command", (shlex.join(s.system.command) for s in summaries[:1] if s.system.command)),
    ]
    connections = [{f"{key} of clients": value for key, value in s.system.connection.items()} for s in summaries]
    for told in (connections, [s.system.effective_config for s in summaries]):
        keys = sorted({key for properties in told for key in properties})
        system += [row for key in keys for row in _seen(key, (properties.get(key, NONE) for properties in told))]
    targets = {s.storage.name: s.storage for s in summaries}
    storage = [(name, _target_text(target)) for name, target in targets.items()]
    return [Facts("System under test", system), Facts("Storage targets", storage), *_cluster_facts(summaries)]


def _target_text(target: StorageTarget) -> str:
    text = [
        _medium_text(target) + (" (emulated)" if target.emulated else ""),
        target.path,
        target.filesystem or "unknown file system",
        target.device,
        target.model,
        target.scheduler and f"scheduler {target.scheduler}",
        target.emulation,
        ",".join(target.mount_options),
    ]
    return "; ".join(part for part in text if part)


def _cluster_facts(summaries: Sequence[TrialSummary]) -> list[Facts]:
    """For each external cluster its hosts, with their hardware and the storage of their logs."""
    clusters = {s.storage.name: s for s in summaries if s.cluster_hosts}
    return [
        Facts(
            f"Hosts of {name}",
            [row for host in summary.cluster_hosts for row in _host_rows(host)],
        )
        for name, summary in clusters.items()
    ]


def _host_rows(host: ClusterHostUse) -> list[tuple[str, str]]:
    about = ", ".join(filter(None, (_host_text(host), host.cpu_model, host.kernel)))
    rows = [(host.name, about)]
    return [*rows, (f"{host.name}, storage", _target_text(host.storage))] if host.storage else rows


def environment_facts(result: RunResult) -> list[Facts]:
    """All facts of env.json, one group for each key at the top level."""
    loose: list[tuple[str, str]] = []
    sections: list[Facts] = []
    for key, value in result.environment.facts.items():
        if key == "versions":
            continue
        if isinstance(value, Mapping) and value:
            sections.append(Facts(_words(key), list(_flattened(value))))
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            sections.append(Facts(_words(key), [_listed(i, item) for i, item in enumerate(value, start=1)]))
        else:
            loose.append((_words(key), _text(key, value)))
    versions = list(_versions(result).items())
    first = [Facts("Versions", versions)] if versions else []
    return [*first, *([Facts("Host", loose)] if loose else []), *sections]


def _versions(result: RunResult) -> dict[str, str]:
    """The versions of manifest and environment together; most are in both."""
    told = result.environment.facts.get("versions")
    found = {str(k): _text("", v) for k, v in told.items()} if isinstance(told, Mapping) else {}
    found.update(result.manifest.versions)
    if result.manifest.git:
        git = result.manifest.git
        found["commit"] = git.commit + (" with uncommitted changes" if git.dirty else "")
    return found


def _listed(number: int, item: Mapping[str, Any]) -> tuple[str, str]:
    """An entry of a list, labelled by its own name or else by its number."""
    named = next((key for key in ("name", "id", "mount_point", "path") if isinstance(item.get(key), str)), None)
    rest = {key: value for key, value in item.items() if key != named}
    return (str(item[named]) if named else str(number)), _text("", rest)


def _flattened(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flattened(value, f"{name}.")
        else:
            # A name with dots or slashes is a sysctl or a property: it is shown unchanged.
            yield (name if "." in name or "/" in name else _words(name)), _text(name, value)


def _text(key: str, value: Any) -> str:
    if value is None or value in ({}, [], ""):
        return NONE if value is None else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if key.endswith("_bytes") and value >= 1024:
            return f"{size_text(value)} ({count_text(value)})"
        return significant(value) if isinstance(value, float) else str(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{_lower(str(k))} {_text(str(k), v)}" for k, v in value.items() if v is not None)
    if isinstance(value, list):
        return ", ".join(_text(key, item) for item in value)
    return str(value)


def _words(key: str) -> str:
    """A key of env.json as words: cpu_count is "CPU count", total_bytes is "Total"."""
    words = _lower(key)
    return words[:1].upper() + words[1:]


def _lower(key: str) -> str:
    return " ".join(_ACRONYMS.get(part, part) for part in key.removesuffix("_bytes").split("_"))


_TUNING_TONES: Final[dict[str, Tone]] = {"ok": "good", "differs": "warn"}


def tuning_table(result: RunResult) -> Table | None:
    """The recorded tuning check; any part of it may be missing."""
    if not result.environment.tuning:
        return None

    def text(row: Mapping[str, Any], *keys: str) -> str:
        return next((_text("", row[key]) for key in keys if row.get(key) not in (None, "")), "")

    rows = []
    for row in result.environment.tuning:
        state = text(row, "state")
        knob = " ".join(filter(None, (text(row, "id"), text(row, "target"))))
        reason = " ".join(filter(None, (text(row, "reason"), as_sentence(text(row, "note")))))
        rows.append(
            Row(
                [
                    Field(knob, small=text(row, "title")),
                    Field(state.replace("_", " "), tone=_TUNING_TONES.get(state, "none")),
                    Field(text(row, "current_text", "current")),
                    Field(text(row, "recommended_text", "recommended")),
                    Field(reason),
                ]
            )
        )
    columns = [
        Column("knob", text=True, prose=True),
        Column("state", text=True),
        Column("current", text=True),
        Column("recommended", text=True),
        Column("why", text=True, prose=True),
    ]
    return Table(columns, rows, label="Host tuning")


def profile_table(run: Run) -> Table | None:
    """The settings that host profiles changed; None when no trial had a profile."""
    uses = {s.host_profile.name: s.host_profile for t in run.result.trials if (s := t.summary).host_profile}
    rows = [
        [profile.name, setting, profile.before.get(setting, NONE), value]
        for profile in uses.values()
        for setting, value in profile.applied.items()
    ]
    header = [Column(title, text=True) for title in ("profile", "setting", "before", "in force")]
    return table(header, rows, "Host profiles") if rows else None


def command_to_repeat(result: RunResult) -> str:
    """The command for a POSIX shell, with every part quoted."""
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
