"""Mistakes in the call: one line that names the mistake and the remedy, exit code 2, nothing changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import highwater.cli
from tests.tuning.cli.invoking import assert_refused, invoke
from tests.tuning.host_tree import make_host, snapshot

NO_TREE = "--root /nonexistent has no proc/ directory"
SWAPPINESS = "unknown knob 'vm.swapines'; did you mean vm.swappiness?"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "--only", "vm.swapines"), SWAPPINESS),
        (("list", "--root", "/nonexistent"), NO_TREE),
        (("list", "--only", "vm.swappiness", "--skip", "vm.swappiness"), "--skip removes every knob that --only names"),
        (("facts", "--root", "/nonexistent"), NO_TREE),
        (("facts", "--save", "/proc/self/nowhere"), "/proc/self/nowhere"),
        (("facts", "--data-dir", "data"), "data directory 'data' must be an absolute path"),
        (("check", "-w", "rt=1ms"), "unknown workload input 'rt'; did you mean rtt?"),
        (("check", "-w", "rtt"), "--workload 'rtt' is not KEY=VALUE"),
        (("check", "-w", "rtt=3"), "rtt: '3' is not a duration"),
        (("check", "--data-dir", "data"), "data directory 'data' must be an absolute path"),
        (("check", "--root", "/nonexistent"), NO_TREE),
        (("check", "--broker-config", "/nonexistent"), "--broker-config /nonexistent cannot be read"),
        (("check", "--unit", "../x"), "'../x' is not the name of a service unit"),
        (("check", "--accept-risk", "vm.swappiness"), "vm.swappiness has no such risk; --accept-risk is for "),
        (("plan", "--profile", "recomended"), "no host profile is called 'recomended'; did you mean recommended?"),
        (("plan", "--skip", "vm.swapines"), SWAPPINESS),
        (("plan", "--root", "/nonexistent"), NO_TREE),
        (("apply", "--yes", "--only", "vm.swapines"), SWAPPINESS),
        (("apply", "--yes", "--profile", "fast"), "no host profile is called 'fast'"),
        (("apply", "--yes", "--root", "/nonexistent"), NO_TREE),
        (("verify", "--only", "vm.swapines"), SWAPPINESS),
        (("verify", "--accept-risk", "vm.swapines"), SWAPPINESS),
        (("verify", "--root", "/nonexistent"), NO_TREE),
        (("status", "--root", "/nonexistent"), NO_TREE),
        (("status", "--data-dir", "data"), "data directory 'data' must be an absolute path"),
        (("rollback", "--root", "/nonexistent"), NO_TREE),
        (("rollback", "--script", "--root", "/nonexistent"), NO_TREE),
        (("explain", "vm.swapines"), SWAPPINESS),
        (("explain", "vm.swappiness", "--root", "/nonexistent"), NO_TREE),
        (("explain", "vm.swappiness", "-w", "lag=x"), "lag: 'x' is not a duration"),
        (("profiles", "note"), "no host profile is called 'note'; did you mean notes?"),
        (("profiles", "--root", "/nonexistent"), NO_TREE),
        (("profiles", "--data-dir", "data"), "data directory 'data' must be an absolute path"),
        (("sizing", "-w", "broker=kafka"), "broker: 'kafka' is not a broker; did you mean apache-kafka?"),
        (("sizing", "--probe", "/nonexistent"), "--probe /nonexistent cannot be read"),
        (("sizing", "--probe", __file__), f"--probe {__file__} is not a storage probe"),
        (("schema", "plans"), "no schema of 'plans'; did you mean plan?"),
        (("schema", "prov"), "no schema of 'prov'; did you mean prove?"),
        (("schema", ""), "no schema of ''"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    assert_refused(invoke(*arguments), message)


def test_a_bad_escape_in_the_brokers_properties_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/data\nsuper.users=\\user\n")
    assert_refused(
        invoke("check", "--broker-config", str(file)), f"--broker-config {file}: line 2: a \\u is not followed"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("lst",),
        ("apply", "--yess"),
        ("explain",),
        ("rollback", "everything"),
        ("status", "--profile", "notes"),
    ],
    ids=" ".join,
)
def test_a_mistake_that_the_command_line_parser_finds_is_one_line(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["highwater", "tune", *arguments])
    with pytest.raises(SystemExit) as ended:
        highwater.cli.main()
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1


def test_a_terminal_that_cannot_show_everything_stops_nothing(tmp_path: Path) -> None:
    root = str(make_host(tmp_path))
    for verb, code in (("sizing", 0), ("plan", 1), ("apply", 0), ("rollback", 0)):
        call = [
            sys.executable,
            "-m",
            "highwater",
            "tune",
            verb,
            "--root",
            root,
            *(["--yes"] if verb in ("apply", "rollback") else []),
        ]
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = subprocess.run(call, env=environment, capture_output=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (code, b"")


def test_no_verb_fails_on_a_host_without_any_facts(tmp_path: Path) -> None:
    """An empty /proc: everything is unknown or does not apply, and nothing is planned."""
    (tmp_path / "proc").mkdir()
    for verb in ("list", "facts", "check", "verify", "status", "profiles", "sizing"):
        result = invoke(verb, "--root", str(tmp_path))
        assert result.exit_code in (0, 1), (verb, result.output)
        assert result.stderr == ""
    assert invoke("plan", "--root", str(tmp_path), "--now-only").exit_code == 0


def test_an_unknown_kernel_version_is_reported(tmp_path: Path) -> None:
    root = make_host(tmp_path, kernel="experimental", sysctls={"net.ipv4.tcp_tw_recycle": "0"})
    before = snapshot(root)
    result = invoke("check", "--root", str(root), "--all", "--only", "net.ipv4.tcp_tw_recycle", columns=200)
    assert "the kernel's version is not known" in " ".join(result.stdout.split()).lower()
    assert snapshot(root) == before
