"""OpenMessaging Benchmark's own files, as they are: every workload with every Kafka driver imported, and one run.

`python -m tests.compat.openmessaging --checkout DIR [--run WORKLOAD DRIVER] [--rate R] [--measure-s S]`

Imports each pair, reads the result as `bench run` does, and prints what was refused, and how often each difference was
noted. `--run` then runs one pair over a broker of ours, shortened by a file that includes it. Exit status 1 when a file
is refused, or the run fails.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import yaml

from highwater.bench.workload.omb import as_text, import_omb
from highwater.bench.workload.specification import load_specification
from highwater.common.errors import UsageError
from highwater.results.reader import RunResult


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.openmessaging", description=__doc__)
    parser.add_argument("--checkout", type=Path, required=True, metavar="DIR", help="of OpenMessaging Benchmark")
    parser.add_argument("--run", nargs=2, metavar=("WORKLOAD", "DRIVER"), help="names of files, without .yaml")
    parser.add_argument("--rate", type=int, help="records per second of the run, instead of the file's")
    parser.add_argument("--measure-s", type=int, default=5, help="measured seconds of the run")
    options = parser.parse_args(arguments)
    workloads = sorted((options.checkout / "workloads").glob("*.yaml"))
    drivers = sorted((options.checkout / "driver-kafka").glob("*.yaml"))
    if not workloads or not drivers:
        parser.error(f"{options.checkout} has no workloads/*.yaml or no driver-kafka/*.yaml: name a checkout")
    with tempfile.TemporaryDirectory(prefix="highwater-omb-") as temporary:
        base = Path(temporary)
        status = import_all(workloads, drivers, base)
        if options.run:
            named = {file.stem: file for file in (*workloads, *drivers)}
            if unknown := [name for name in options.run if name not in named]:
                parser.error(f"the checkout has no {', '.join(unknown)}")
            workload, driver = (named[name] for name in options.run)
            status |= run_one(workload, driver, base, options.rate, options.measure_s)
    return status


def import_all(workloads: list[Path], drivers: list[Path], base: Path) -> int:
    refused: list[str] = []
    notes: Counter[str] = Counter()
    imported = base / "imported.yaml"
    for workload in workloads:
        for driver in drivers:
            try:
                translation = import_omb(workload, driver)
                imported.write_text(as_text(translation, workload), "utf-8")
                load_specification(imported)
            except UsageError as error:
                refused.append(f"{workload.name} with {driver.name}: {error}")
            else:
                notes.update(re.sub(r"\d+", "N", re.sub(r" of [\w-]+\.yaml", "", note)) for note in translation.notes)
    print(f"{len(workloads)} workloads with {len(drivers)} drivers: {len(refused)} refused")
    for line in refused:
        print(line)
    for note, times in notes.most_common():
        print(f"{times} × {note}")
    return 1 if refused else 0


def run_one(workload: Path, driver: Path, base: Path, rate: int | None, measure_s: int) -> int:
    """Run a pair over a broker of ours; what is shortened stands in a file of its own, laid over the imported one."""
    (base / "imported.yaml").write_text(as_text(import_omb(workload, driver, own_broker=True), workload), "utf-8")
    shortened = {
        "include": "imported.yaml",
        # One broker holds one copy.
        "topics": {"replication": 1, "config": {"min.insync.replicas": 1}},
        "phases": {"warmup": "2s", "measure": f"{measure_s}s", "drain": "30s"},
        "trials": {"n": 1, "a_a": False},
        "system": {"nodes": 1},
    }
    if rate:
        shortened["load"] = {"rate": f"{rate}/s"}
    (base / "shortened.yaml").write_text(yaml.safe_dump(shortened), "utf-8")
    command = [sys.executable, "-m", "highwater", "bench", "run", str(base / "shortened.yaml")]
    done = subprocess.run([*command, "--out", str(base / "result"), "--launcher", "process"], check=False)
    if done.returncode not in (0, 4):
        return 1
    for trial in RunResult(base / "result").trials:
        summary = trial.summary
        print(
            f"{summary.trial_id}: {summary.achieved_per_s:.0f} records/s, {summary.verdict.state}, {summary.delivery}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
