"""Break a cluster of three brokers under load, one story after another, and say what became of every record.

    python -m tests.drills.cluster --system highwater|kafka [--only kill-leader,…] [--rounds N]

Each story begins with a new cluster. Exit status: 0 every promise kept, 1 one was broken (what the cluster left stays
in --directory), 2 the drill cannot be run here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.drills.cluster.drill import Drill, Report
from tests.drills.cluster.network import Loopback, Namespaces, Network
from tests.drills.cluster.stories import QUICK, STORIES, Story
from tests.drills.cluster.systems import SYSTEMS, Cluster

BROKERS = 3


def run(system: str, name: str, directory: Path, records_per_s: int, *, is_root: bool) -> Report:
    """One story on a cluster of its own, whose files stay in `directory` when a promise is broken."""
    story: Story = STORIES[name]
    directory.mkdir(parents=True)
    servers = [f"broker-{n}" for n in range(1, BROKERS + 1)] + [
        f"zookeeper-{n}" for n in range(1, story.zookeepers + 1)
    ]
    network: Network = Namespaces(servers) if is_root else Loopback()
    try:
        with Cluster(
            [system] * BROKERS,
            directory,
            network,
            zookeepers=story.zookeepers,
            log_dir_size_bytes=story.log_dir_size_bytes,
        ) as cluster:
            report = Drill(name, cluster, records_per_s).run(story.tell, list(cluster.brokers)[: story.leaders])
    finally:
        network.close()
    if report.is_kept:
        shutil.rmtree(directory)
    return report


def table(reports: Sequence[Report]) -> list[str]:
    """As Markdown: a row for each story and kind of producer."""
    lines = [
        "| story | election s | full ISR s | producer | acknowledged | refused | lost | twice | reordered | gap s |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for report in reports:
        times = [f"{t:.1f}" if t is not None else "–" for t in (report.election_s, report.full_isr_s)]
        for outcome in report.outcomes:
            twice = str(outcome.duplicates) + ("*" if outcome.excused else "")
            counts = (outcome.acknowledged, outcome.refused, outcome.lost, twice, outcome.reordered)
            numbers = " | ".join(map(str, counts))
            gap = "–" if outcome.kind.name == "acks-0" else f"{outcome.longest_gap_s:.1f}"
            lines.append(f"| {report.name} | {times[0]} | {times[1]} | {outcome.kind.name} | {numbers} | {gap} |")
    return lines


def _document(report: Report) -> dict[str, Any]:
    document = asdict(report)
    for outcome in document["outcomes"]:
        outcome["kind"] = outcome["kind"]["name"]
    return document


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--system", choices=SYSTEMS, default="highwater")
    parser.add_argument("--only", help=f"some of: {', '.join(STORIES)}")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--rounds", type=int, default=1, help="how often each story is told")
    parser.add_argument("--records-per-s", type=int, default=400, help="that each producer writes")
    parser.add_argument("--directory", type=Path, help="where the clusters live (default: a temporary one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args(arguments)
    names = options.only.split(",") if options.only else list(QUICK if options.quick else STORIES)
    for name in names:
        if name not in STORIES:
            parser.error(f"there is no story {name}; there are {', '.join(STORIES)}")
    options.names = names
    options.is_root = os.geteuid() == 0
    if needy := [name for name in names if STORIES[name].needs_root and not options.is_root]:
        parser.error(f"{', '.join(needy)}: network namespaces and mounts need root; name others with --only")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    # Either way the processes of the drill end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory: Path = options.directory or Path(tempfile.mkdtemp(prefix="cluster-drill-"))
    reports: list[Report] = []
    broken = 0
    for turn in range(options.rounds):
        for name in options.names:
            began_s = time.monotonic()
            try:
                report = run(
                    options.system,
                    name,
                    directory / f"{name}-{turn}",
                    options.records_per_s,
                    is_root=options.is_root,
                )
            except Exception as error:
                traceback.print_exception(error)
                report = Report(name, violations=[f"the drill could not be finished: {error!r}"])
            reports.append(report)
            broken += not report.is_kept
            verdict = "kept" if report.is_kept else "BROKEN"
            print(f"{options.system} {name}: {verdict} ({time.monotonic() - began_s:.0f} s)", flush=True)
            print("\n".join(table([report])[2:]), flush=True)
            for line in [*report.remarks, *report.violations, *(v for o in report.outcomes for v in o.violations)]:
                print(f"  {line}", flush=True)
    print("\n" + "\n".join(table(reports)))
    if options.json:
        options.json.write_text(json.dumps([_document(report) for report in reports], indent=1) + "\n")
    print(f"{options.system}: {len(reports)} drills, {broken} with a broken promise")
    if broken:
        print(f"what they left is in {directory}")
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
