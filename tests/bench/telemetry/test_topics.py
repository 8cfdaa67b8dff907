"""Wrong control brokers and topics: refused in one line, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from highwater.bench.telemetry.control import TOPIC, ControlTopic
from highwater.bench.telemetry.topics import control_of
from highwater.bench.workload.specification import Specification, load_specification
from highwater.cli import app
from highwater.common.errors import UsageError
from highwater.kafka.login.token_request import TokenSettings
from highwater.pipeline.kafka.settings import settings_of
from tests.broker.running import RunningBroker, running_broker

WORKLOAD = """\
schema: bench.workload/1
name: told
for_measurement: false
system: {{kind: external, bootstrap_servers: "{address}"}}
topics: {{partitions: 2}}
producers: {{count: 1}}
consumers: {{groups: 1, per_group: 1}}
records: {{size: 200B}}
load: {{rate: 100/s}}
phases: {{warmup: 1s, measure: 2s}}
trials: {{n: 1, seed: 7}}
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "log") as running:
        yield running


def topics_at(address: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": address}).list_topics(timeout=60).topics)


def test_the_file_of_a_workload_can_name_the_control_broker(tmp_path: Path, broker: RunningBroker) -> None:
    workload, properties = tmp_path / "told.yaml", tmp_path / "control.properties"
    text = WORKLOAD.format(address=broker.address)
    plain = specification_at(workload, text)
    assert control_of(plain) is None
    properties.write_text("security.protocol=PLAINTEXT\n")
    section = f'telemetry: {{control: "localhost:{broker.port}", config: control.properties}}\n'
    told = specification_at(workload, text + section)
    assert control_of(told) == ControlTopic(
        f"localhost:{broker.port}", "hw.telemetry", {"security.protocol": "PLAINTEXT"}
    )
    assert told.sha256 == plain.sha256
    for command in (("plan",), ("run", "--out", str(tmp_path / "out"))):
        found = CliRunner().invoke(app, ["bench", *command, str(workload), "--launcher", "process"])
        assert found.exit_code == 2, found.output
        assert f"the control broker localhost:{broker.port} is the cluster under test" in found.output
    assert topics_at(broker.address) <= {"__consumer_offsets"}
    for section, said in (
        ("telemetry: {control: nowhere}", "'nowhere' is not HOST:PORT"),
        ('telemetry: {contrl: "a:1"}', "contrl"),
        ('telemetry: {control: "a:1", config: gone.properties}', "gone.properties"),
    ):
        workload.write_text(text + section + "\n")
        found = CliRunner().invoke(app, ["bench", "plan", str(workload), "--launcher", "process"])
        assert found.exit_code == 2, found.output
        assert said in found.output


def specification_at(path: Path, text: str) -> Specification:
    path.write_text(text)
    return load_specification(path)


def test_what_cannot_be_a_control_broker_or_a_topic_is_refused(tmp_path: Path, broker: RunningBroker) -> None:
    workload = tmp_path / "told.yaml"
    workload.write_text(WORKLOAD.format(address=broker.address))
    run = ("run", str(workload), "--launcher", "process", "--out", str(tmp_path / "out"))
    live = ("telemetry", "live", "--control", broker.address, "--state", str(tmp_path / "state"))
    final = ("telemetry", "final", "--control", broker.address)
    for arguments, message in (
        # Another name of the same broker, which the ids of the clusters tell.
        (
            (*run, "--telemetry", f"localhost:{broker.port}"),
            f"the control broker localhost:{broker.port} is the cluster under",
        ),
        ((*live, "--verdicts", "hw.telemetry"), "--verdicts hw.telemetry is the topic that load tasks publish to"),
        (final, f"at {broker.address} there is no topic hw.telemetry, or this user may not see it"),
    ):
        found = CliRunner().invoke(app, ["bench", *arguments])
        assert found.exit_code == 2, found.output
        assert found.output.startswith(f"error: {message}")
        assert found.output.count("\n") == 1
    assert topics_at(broker.address) <= {"__consumer_offsets"}
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "state").exists()


def test_the_spark_job_logs_in_with_tokens_as_the_load_does() -> None:
    of_tokens = {
        "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "hush",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.method": "oidc",
    }
    topic = ControlTopic("a:1", TOPIC, {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", **of_tokens})
    assert settings_of(topic.kafka_properties()).sasl == TokenSettings(
        "https://idp.example/token", "me", "hush", "kafka"
    )
    with pytest.raises(UsageError, match=r"ssl\.key\.location is not for the Spark job"):
        ControlTopic("a:1", TOPIC, {"ssl.key.location": "x"}).kafka_properties()
