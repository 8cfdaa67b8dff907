"""What we write for other tools, read by them: pyperf, pandas and pyarrow, junitparser, jsonschema's command."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final

import pandas
from junitparser import JUnitXml

from highwater.bench.gate.junit import junit_xml
from highwater.results.reader import RunResult
from tests.bench.gate.test_texts import outcome
from tests.compat.instrument.case import case, highwater, judged_run, printed_by, temporary_directory

_STABLE: Final = re.compile(r"not enough samples|seem to be stable|may be unstable|WARNING")
_SCHEMAS: Final = Path(__file__).parents[3] / "bench/schemas"


@case
def pyperf_compares_what_a_run_exports() -> None:
    exported = temporary_directory() / "run.json"
    highwater("bench", "export", str(judged_run()), "--to", "pyperf", "--out", str(exported))
    compared = printed_by(sys.executable, "-m", "pyperf", "compare_to", "--table", exported, exported)
    names = [benchmark["metadata"]["name"] for benchmark in json.loads(exported.read_text())["benchmarks"]]
    assert len(names) > 10, names
    # Of equals with several trials it says nothing, of equals with one that they are.
    assert "slower" not in compared, compared
    assert "faster" not in compared, compared


@case
def pyperf_checks_what_a_run_exports() -> None:
    """It judges each benchmark and understands all of them; of two trials it can only say that they are few."""
    exported = temporary_directory() / "run.json"
    highwater("bench", "export", str(judged_run()), "--to", "pyperf", "--out", str(exported))
    printed = printed_by(sys.executable, "-m", "pyperf", "check", exported)
    assert _STABLE.search(printed), printed
    names = [benchmark["metadata"]["name"] for benchmark in json.loads(exported.read_text())["benchmarks"]]
    shown = printed_by(sys.executable, "-m", "pyperf", "show", exported)
    assert not [name for name in names if name not in shown], shown


@case
def pandas_reads_the_parquet_of_a_run() -> None:
    file = temporary_directory() / "run.parquet"
    highwater("bench", "export", str(judged_run()), "--to", "parquet", "--out", str(file))
    frame = pandas.read_parquet(file)
    summaries = [trial.summary for trial in RunResult(judged_run()).trials]
    by_id = frame.set_index("trial_id")
    assert sorted(by_id.index) == sorted(summary.trial_id for summary in summaries)
    for summary in summaries:
        row = by_id.loc[summary.trial_id]
        assert row["produce.achieved_per_s"] == summary.achieved_per_s, row
        assert row["produce.p99_ns"] == summary.produce.response_ns.p99, row


@case
def a_junit_reader_reads_the_gate() -> None:
    """A regression, and an outcome whose text holds what XML cannot."""
    for gate, failures in ((outcome(0.8), True), (outcome(1.0, "fine \x1b[31m <&> \x00"), False)):
        suites = JUnitXml.fromstring(junit_xml(gate).encode())
        cases = [found for suite in suites for found in suite]
        assert bool([found for found in cases if found.is_failure]) == failures, cases
        for suite in suites:
            counted = suite.tests, suite.failures, suite.errors, suite.skipped
            suite.update_statistics()  # type: ignore[no-untyped-call]
            assert counted == (suite.tests, suite.failures, suite.errors, suite.skipped), suite.name


@case
def jsonschema_accepts_every_document_of_a_run() -> None:
    """Against the schemas as they are shipped: files, and lines where a file has a document on each."""
    run = judged_run()
    documents = [*run.glob("*.json"), *run.glob("trials/*/*.json")]
    for file in run.glob("trials/*/*.jsonl"):
        lines = file.read_text().splitlines()
        for number in sorted({0, len(lines) // 2, len(lines) - 1} if lines else set()):
            documents.append(temporary_directory() / f"{file.stem}.json")
            documents[-1].write_text(lines[number])
    of_trials = {"summary", "verdict", "windows", "host", "partitions", "events"}
    assert {file.stem for file in documents} >= {"manifest", "analysis", "env"} | of_trials, documents
    for name in sorted({file.stem for file in documents}):
        instances = [word for file in documents if file.stem == name for word in ("-i", str(file))]
        schema = _SCHEMAS / f"{name}.schema.json"
        # The command is deprecated for another package's, and works.
        quiet = (sys.executable, "-W", "ignore::DeprecationWarning")
        printed_by(*quiet, "-m", "jsonschema", "-F", "{error.json_path} ", *instances, schema)
