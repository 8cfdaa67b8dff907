"""Pages of metrics, read as Prometheus' own library reads them, and a Prometheus of Debian's that scrapes them."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from highwater.common.ports import free_ports
from tests.promtool import prometheus_path
from tests.waiting import wait_until

Series = tuple[str, frozenset[tuple[str, str]]]
_TIMEOUT_S: Final = 60.0


def samples(address: str) -> dict[Series, float]:
    """Values by name and labels."""
    with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Prometheus:
    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}/api/v1"

    def query(self, expression: str) -> list[Any]:
        """The result of an instant query: a series each."""
        found: list[Any] = self._get(f"/query?{urllib.parse.urlencode({'query': expression})}")["data"]["result"]
        return found

    def scraped(self) -> int:
        """Scrapes of the job that came in so far."""
        result = self.query("sum(count_over_time(up[10m]))")
        return int(result[0]["value"][1]) if result else 0

    def is_up(self) -> bool:
        try:
            return bool(self._get("/status/buildinfo"))
        except OSError:
            return False

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self._base + path, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            return json.loads(answer.read())


@contextmanager
def prometheus(directory: Path, addresses: Mapping[str, str], labels: Mapping[str, str]) -> Iterator[Prometheus]:
    """One that scrapes each of `addresses` (by job) every second, and gives `labels` to all series."""
    (port,) = free_ports(1)
    jobs = [
        {
            "job_name": name,
            "static_configs": [{"targets": [urllib.parse.urlsplit(address).netloc], "labels": dict(labels)}],
        }
        for name, address in addresses.items()
    ]
    config = directory / "prometheus.yml"
    # JSON is YAML.
    config.write_text(json.dumps({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}))
    command = [
        prometheus_path(),
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    log = directory / "prometheus.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        found = Prometheus(port)
        wait_until(lambda: process.poll() is not None or found.is_up(), "Prometheus")
        assert process.poll() is None, log.read_text()
        yield found
    finally:
        process.kill()
        process.wait()
