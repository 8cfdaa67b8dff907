"""The cases: a cluster each, and everything that somebody else says of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tests.compat.monitor import beside_tools, dashboards, exporter
from tests.compat.monitor.cluster import SYSTEMS, Watched, watched
from tests.compat.monitor.scraping import prometheus, samples

LAG_EXPORTER_NAMES: Final = (
    "kafka_consumergroup_group_lag_seconds",
    "kafka_consumergroup_group_max_lag",
    "kafka_consumergroup_group_max_lag_seconds",
    "kafka_consumergroup_group_sum_lag",
)
"""Of kafka-lag-exporter 0.8 (its README), with the labels that its dashboard filters by."""
_LAG_EXPORTER_LABELS: Final = {"cluster_name", "group"}


def _in_watched(system: str, *checks: Callable[[Watched, Path], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="highwater-compat-") as directory:
        place = Path(directory)
        with watched(system, place) as cluster:
            for check in checks:
                check(cluster, place)


def _tools(cluster: Watched, place: Path) -> None:
    beside_tools.check_topics(cluster)
    beside_tools.check_groups(cluster)
    beside_tools.check_log_dirs(cluster)
    beside_tools.check_configs(cluster)


def _exporter(cluster: Watched, place: Path) -> None:
    with exporter.exporting(cluster.bootstrap, place / "exporter.log") as theirs:
        exporter.check_equal(cluster.metrics, theirs)


def _lag_exporter_names(cluster: Watched, place: Path) -> None:
    found = samples(cluster.metrics)
    for name in LAG_EXPORTER_NAMES:
        labels = [{key for key, _ in labels} for each, labels in found if each == name]
        assert labels, f"{name} is not there"
        assert all(each >= _LAG_EXPORTER_LABELS for each in labels), f"{name} has the labels {labels[0]}"


def _dashboards(cluster: Watched, place: Path) -> None:
    scraped = {"monitor": cluster.metrics, "broker": cluster.broker_metrics}
    with prometheus(place, scraped, dashboards.LABELS) as found:
        dashboards.check_names(found, dashboards.OF_THE_EXPORTER)
        dashboards.check_names(found, dashboards.OF_BROKERS)


def _dashboards_word_by_word(cluster: Watched, place: Path) -> None:
    scraped = {"monitor": cluster.metrics, "broker": cluster.broker_metrics}
    with prometheus(place, scraped, dashboards.LABELS) as found:
        dashboards.check_word_by_word(found, dashboards.EXPORTER)
        dashboards.check_word_by_word(found, dashboards.KAFKA)


CASES: Final[dict[str, Callable[[], None]]] = {
    **{f"tools-{system}": partial(_in_watched, system, _tools) for system in SYSTEMS},
    **{f"kafka-exporter-{system}": partial(_in_watched, system, _exporter) for system in SYSTEMS},
    "lag-exporter-names-and-strimzi-dashboards": partial(_in_watched, "our-broker", _lag_exporter_names, _dashboards),
    "strimzi-dashboards-word-by-word": partial(_in_watched, "our-broker", _dashboards_word_by_word),
}
