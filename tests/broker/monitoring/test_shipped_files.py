"""The Prometheus configuration, the alerts and the dashboard that come with the broker, against its metrics."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from highwater.admin.cluster_health import ClusterHealth, DownBroker, LiveBroker
from highwater.broker.commands.cluster_status import ClusterStatus
from highwater.broker.commands.monitoring import FILES, SHIPPED, TARGETS_FILE, problems, targets_of
from highwater.common.ports import free_ports
from tests.admin.calling import call
from tests.broker.handlers.harness import NodeHarness
from tests.broker.metrics.test_page import whole_page
from tests.broker.running import RunningBroker, running_broker
from tests.promtool import promtool

# Kafka's name, as dashboards made for Kafka ask for it; promtool keeps the end of this name for histograms.
KAFKAS_NAME: Final = (
    "kafka_server_socketservermetrics_connection_count "
    'non-histogram and non-summary metrics should not have "_count" suffix'
)


def dashboard() -> Any:
    return json.loads((SHIPPED / "grafana-dashboard.json").read_text())


def panels() -> list[Any]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def rules() -> list[Any]:
    (group,) = yaml.safe_load((SHIPPED / "alerts.yml").read_text())["groups"]
    return list(group["rules"])


def expressions() -> Iterator[str]:
    yield from (target["expr"] for panel in panels() for target in panel["targets"])
    yield from (rule["expr"] for rule in rules())


def accepted(*arguments: str | Path) -> str:
    """What promtool prints of something that it accepts."""
    ended = promtool(*arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_every_metric_and_label_is_one_that_the_broker_serves(node: NodeHarness) -> None:
    page = whole_page(node)
    served: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            served.setdefault(sample.name, set()).update(sample.labels)
    of_the_scrape = {"cluster", "broker", "job", "instance"}
    for expression in expressions():
        asked = re.findall(r"\b((?:kafka|highwater|process|python)_[a-z_]+)(?:\{([^}]*)\})?", expression)
        assert asked or expression.startswith(("up", "count(up")), expression
        for name, matchers in asked:
            assert name in served, f"{name} of {expression}"
            assert set(re.findall(r"(\w+)(?:=|!=|=~)", matchers)) <= served[name] | of_the_scrape, expression


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    made = dashboard()
    ids = [panel["id"] for panel in made["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in made["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, f"{panel['title']} lies on another panel"
        taken |= cells
    assert [variable["name"] for variable in made["templating"]["list"]] == ["datasource", "cluster", "broker"]
    for panel in panels():
        assert panel["description"], panel["title"]
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}


@pytest.mark.slow  # may download promtool
def test_promtool_accepts_the_configuration_and_the_rules(tmp_path: Path) -> None:
    for file in (*FILES, TARGETS_FILE):
        shutil.copy(SHIPPED / file, tmp_path)
    assert "SUCCESS: 1 rule files found" in accepted("check", "config", "--lint-fatal", tmp_path / "prometheus.yml")


@pytest.mark.slow  # may download promtool
def test_promtool_accepts_every_query_of_the_dashboard(tmp_path: Path) -> None:
    queries = [
        re.sub(r"\$__(?:rate_interval|range)", "1m", target["expr"]).replace("$cluster", "c").replace("$broker", "1")
        for panel in panels()
        for target in panel["targets"]
    ]
    recorded = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    assert f"{len(queries)} rules found" in accepted("check", "rules", tmp_path / "rules.yml")


@pytest.mark.slow  # may download promtool
def test_promtool_accepts_the_page_but_for_a_name_of_kafka(node: NodeHarness) -> None:
    assert lint(whole_page(node)) == [KAFKAS_NAME]


def lint(page: str) -> list[str]:
    ended = promtool("check", "metrics", given=page)
    return (ended.stdout + ended.stderr).splitlines()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    listener = f"metrics.listener=HTTP://127.0.0.1:{free_ports(1)[0]}"
    with running_broker(tmp_path / "log", properties=[listener]) as running:
        yield running


@pytest.mark.slow  # may download promtool
def test_the_command_writes_files_for_the_cluster_and_promtool_accepts_them_and_the_live_page(
    broker: RunningBroker, tmp_path: Path
) -> None:
    made = call("monitoring", tmp_path / "made", "-b", broker.address, "--name", "mine")
    assert (made.exit_code, made.errors) == (0, ""), made
    (scraped,) = json.loads((tmp_path / "made" / TARGETS_FILE).read_text())
    assert scraped["labels"] == {"cluster": "mine", "broker": "0"}
    assert str(tmp_path / "made" / "prometheus.yml") in made.output
    assert "SUCCESS" in accepted("check", "config", "--lint-fatal", tmp_path / "made" / "prometheus.yml")
    (address,) = scraped["targets"]
    with urllib.request.urlopen(f"http://{address}/metrics") as answer:
        page = answer.read().decode()
    assert lint(page) == [KAFKAS_NAME]

    (tmp_path / "made" / "alerts.yml").write_text("groups: []\n")
    assert call("monitoring", tmp_path / "made", "-b", broker.address).exit_code == 0
    assert (tmp_path / "made" / "alerts.yml").read_text() == "groups: []\n", "what the user wrote stays"


def test_a_broker_without_metrics_and_a_place_that_cannot_be_written_are_one_line_each(
    broker: RunningBroker, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    refused = call("monitoring", tmp_path / "file", "-b", broker.address)
    assert (refused.exit_code, refused.output) == (2, "")
    assert refused.errors.startswith(f"error: {tmp_path / 'file'} cannot be written: ")
    with running_broker(tmp_path / "other") as without:
        refused = call("monitoring", tmp_path / "made", "-b", without.address)
    assert (refused.exit_code, refused.errors) == (
        1,
        "error: no broker reports where it serves metrics: set metrics.listener=HTTP://127.0.0.1:9404 and restart\n",
    )
    assert not (tmp_path / "made").exists()


def test_addresses_that_prometheus_cannot_reach_are_named() -> None:
    live = [LiveBroker(n, f"host-{n}:9092", 0, 0) for n in (1, 2, 3, 4)]
    health = ClusterHealth(1, live, [DownBroker(5, "gone", 1)], [])
    metrics = {1: "127.0.0.1:9404", 2: "0.0.0.0:9404", 3: "10.0.0.3:9404", 4: "127.0.0.1:0", 6: ""}
    found = ClusterStatus(health, "", metrics, None)
    targets = targets_of(found)
    assert targets == {1: "127.0.0.1:9404", 2: "host-2:9404", 3: "10.0.0.3:9404"}
    unknown, loopback = problems(found, targets)
    assert unknown == "no metrics address is known of broker 4, 5, which brokers.json leaves out"
    assert loopback.startswith("broker 1 serves metrics on the loopback address of its host")


DOWN: Final = 'up{job="highwater",cluster="c",broker="3",instance="h:1"}'
OF_1: Final = '{cluster="c",broker="1"}'
OF_2: Final = '{cluster="c",broker="2"}'


@pytest.mark.slow  # may download promtool
@pytest.mark.parametrize(
    ("alert", "series", "fires_at", "labels"),
    [
        ("HighwaterBrokerDown", {DOWN: "0x30"}, "1m", {"job": "highwater", "broker": "3", "instance": "h:1"}),
        (
            "HighwaterPartitionsWithoutLeader",
            {
                f"kafka_controller_kafkacontroller_offlinepartitionscount{OF_1}": "2x30",
                f"kafka_controller_kafkacontroller_offlinepartitionscount{OF_2}": "0x30",
            },
            "1m",
            {},
        ),
        (
            "HighwaterPartitionsUnderReplicated",
            {f"kafka_server_replicamanager_underreplicatedpartitions{OF_1}": "4x30"},
            "10m",
            {},
        ),
        (
            "HighwaterUncleanLeaderElection",
            {f"kafka_controller_controllerstats_uncleanleaderelections_total{OF_1}": "0 0 1x30"},
            "5m",
            {"broker": "1"},
        ),
        (
            "HighwaterNoController",
            {
                f"kafka_controller_kafkacontroller_activecontrollercount{OF_1}": "0x30",
                f"kafka_controller_kafkacontroller_activecontrollercount{OF_2}": "0x30",
            },
            "1m",
            {},
        ),
    ],
)
def test_an_alert_fires_when_it_should_and_not_before(
    tmp_path: Path, alert: str, series: dict[str, str], fires_at: str, labels: dict[str, str]
) -> None:
    (rule,) = [rule for rule in rules() if rule["alert"] == alert]
    # What the alert says is held by `promtool check`; here it is left out, so that its words can change.
    quiet = {key: value for key, value in rule.items() if key != "annotations"}
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": [quiet]}]}))
    fired = [{"exp_labels": {"cluster": "c", "severity": rule["labels"]["severity"], **labels}}]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": "0m", "alertname": alert, "exp_alerts": []},
            {"eval_time": fires_at, "alertname": alert, "exp_alerts": fired},
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"rule_files": ["alerts.yml"], "tests": [test]}))
    accepted("test", "rules", tmp_path / "test.yml")
