"""The commands `highwater bench …` of the instrument itself, imported when they are called."""

from __future__ import annotations

from typing import Final

from highwater.common.late_commands import Late, late_app

_VERBS: Final = "highwater.bench.commands"

app = late_app(
    {
        "run": Late(f"{_VERBS}.run:run", "Run every trial of a workload and write a result directory."),
        "search": Late(
            f"{_VERBS}.search:search",
            "Find the highest rate that the system sustains without errors, within objectives, and without "
            "growing lag.",
        ),
        "metrics": Late(
            f"{_VERBS}.inspect:metrics", "List the names of all metrics, for objectives, policies and --metric."
        ),
        "verify": Late(
            f"{_VERBS}.inspect:verify",
            "Check digests and schemas of a result directory; recompute percentiles, counts, verdicts and analysis.",
        ),
        "export": Late(
            f"{_VERBS}.export:export",
            "Write results in the format of another tool. Estimates leave out invalid trials.",
        ),
        "gate": Late(
            f"{_VERBS}.gate:gate",
            "Decide whether HEAD is slower than BASE: interleaved pairs on one host, and a confirmation before it "
            "fails.",
        ),
        "calibrate": Late(
            f"{_VERBS}.calibrate:calibrate",
            "Measure the instrument's own ceilings on this host, and the noise of its figures.",
        ),
        "import": Late(f"{_VERBS}.import_omb:app", "Convert workloads of other tools."),
        "storage": Late(
            f"{_VERBS}.storage:app", "Storage targets: list them, probe them with fio, emulate a hard disk."
        ),
        "network": Late(f"{_VERBS}.network:network", "Measure with iperf3 what the network carries both ways at once."),
        "host": Late(
            f"{_VERBS}.host:app",
            "Describe or sample a host of an external cluster; run these commands on that host.",
        ),
        "env": Late(f"{_VERBS}.env:app", "The environments of results: their facts, and the key computed from these."),
    },
    help="Measure a broker with load from Spark executors.\n\n"
    "Exit codes: 0 all well; 2 usage error; 3 the system failed or lost data; 4 a measurement is not valid; "
    "5 environments are not comparable; 10 a regression; 11 inconclusive (with --strict); "
    "12 an objective was missed; "
    "130 interrupted; what was measured so far is saved.",
)
