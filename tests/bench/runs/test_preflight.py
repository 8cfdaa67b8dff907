"""What keeps a plan from running here is found before anything starts."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from highwater.bench.runs import launchers, preflight
from highwater.bench.runs.launchers import LauncherChoice, LauncherKind, check_slots
from highwater.bench.runs.preflight import Preflight
from highwater.bench.trials.given_calibration import host_facts
from highwater.bench.trials.plan import Plan, make_plan
from highwater.bench.workload.specification import specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.common.errors import NotComparableError, UsageError
from highwater.results.calibration import Calibration, Loopback
from highwater.tuning.facts import collect
from tests.bench.fakes import MINIMAL, FakeLauncher

PROCESSES = LauncherChoice(LauncherKind.PROCESS)


def plan_of(tmp_path: Path, text: str = MINIMAL) -> Plan:
    return make_plan(specify(parse_document(text, "w.yaml"), tmp_path / "w.yaml"))


def checked(tmp_path: Path, text: str = MINIMAL, choice: LauncherChoice = PROCESSES) -> Preflight:
    return preflight.preflight(plan_of(tmp_path, text), choice, collect())


def test_a_plan_that_can_run(tmp_path: Path) -> None:
    here = f"storage: {{target: here, targets: {{here: {{path: {tmp_path}}}}}}}\n"
    assert checked(tmp_path, MINIMAL + here) == Preflight()
    assert list(tmp_path.iterdir()) == []


def test_every_reason_is_told_and_not_the_first_alone(tmp_path: Path) -> None:
    text = MINIMAL + (
        f"system: {{source: {tmp_path}}}\nstorage: {{target: gone, targets: {{gone: {{path: {tmp_path}/gone}}}}}}\n"
    )
    found = checked(tmp_path, text, LauncherChoice(LauncherKind.PROCESS, "local[1]"))
    assert [str(error).partition(";")[0] for error in found.refusals] == [
        "--master is a setting of Spark and --launcher process uses none: leave one of them out",
        f"system.source: {tmp_path} holds no highwater/ and no broker/",
        f"storage target gone: {tmp_path}/gone does not exist",
    ]
    with pytest.raises(UsageError, match=r"^--master is a setting of Spark"):
        found.refuse()


@pytest.mark.parametrize(
    ("system", "error"),
    [
        ("{kind: command, command: 'no-such-broker --port {port}'}", "system.command: no program no-such-broker here"),
        ("{kind: apache-kafka}", "KAFKA_HOME=/nowhere holds no libs/kafka-clients-….jar: correct it, or unset it"),
    ],
)
def test_a_system_that_this_host_has_not(
    tmp_path: Path, system: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_HOME", "/nowhere")
    monkeypatch.setattr("highwater.bench.systems.apache_kafka.java_for", lambda _: "java")
    assert [str(refusal) for refusal in checked(tmp_path, f"{MINIMAL}system: {system}\n").refusals] == [error]


def test_a_disk_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        free: int

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 20))
    (refusal,) = checked(tmp_path).refusals
    assert "has 1 MiB free and the run may write" in str(refusal)


@pytest.mark.parametrize("master", ["elsewhere", "spark://127.0.0.1:1"])
def test_a_master_that_cannot_be_had(tmp_path: Path, master: str) -> None:
    (refusal,) = checked(tmp_path, choice=LauncherChoice(master=master)).refusals
    assert master in str(refusal)


def test_more_tasks_than_slots(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, MINIMAL + "producers: {count: 3}\n")
    told = r"needs 4 load tasks at once and local\[2\] has slots for 2; use --launcher process, --master 'local\[4\]'"
    with pytest.raises(UsageError, match=told):
        check_slots(plan, 2, "local[2]")
    check_slots(plan, None, "yarn")


def test_an_external_cluster_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.bench.systems.broker_client._TIMEOUT_S", 0.5)
    external = "system: {kind: external, bootstrap_servers: '127.0.0.1:1'}\n"
    (refusal,) = checked(tmp_path, MINIMAL + external).refusals
    assert str(refusal).startswith("no broker answers at 127.0.0.1:1 within")


def test_each_way_into_a_cluster_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, str]] = []

    class Client:
        def __init__(self, servers: str, connection: Mapping[str, str]) -> None:
            tried.append((servers, connection.get("security.protocol", "")))

        def check_reachable(self) -> None: ...

    monkeypatch.setattr(preflight, "BrokerClient", Client)
    (tmp_path / "SSL").write_text("security.protocol=SSL\n")
    ways = "{b: {bootstrap_servers: 'a:1'}, c: {bootstrap_servers: 'a:1', command_config: SSL}}"
    external = f"system: {{kind: external, cluster: b, clusters: {ways}}}\nmatrix: {{system.cluster: [b, c]}}\n"
    assert checked(tmp_path, MINIMAL + external).refusals == []
    assert sorted(tried) == [("a:1", ""), ("a:1", "SSL")]


def calibration(**changes: str) -> Calibration:
    return Calibration(
        created_utc="2026-01-01T00:00:00Z",
        workload=None,
        workload_sha256=None,
        environment={**host_facts(collect(), {}), **changes},
        ceilings=[],
        loopback=Loopback(bytes_per_s=1.0, round_trip_p50_ns=1, round_trip_p99_ns=1, round_trip_bytes=1),
        storage=[],
        noise=[],
        launchers=[],
        pairs=None,
        notes=[],
    )


def test_a_calibration_of_another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launchers, "make_launcher", lambda *_: FakeLauncher())

    def asked(given: Calibration) -> Preflight:
        return preflight.preflight(plan_of(tmp_path), PROCESSES, collect(), calibration=given)

    assert asked(calibration()) == Preflight()
    (refusal,) = asked(calibration(librdkafka="0.9")).refusals
    assert isinstance(refusal, NotComparableError)
