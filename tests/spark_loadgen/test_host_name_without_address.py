"""Spark on a host whose own name has no address: local masters use loopback, others report the way out.

The host is a namespace for its name and for /etc/hosts, which ends with the process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

NAME = "a-name-without-an-address"
# Root does it by itself; others do within a user namespace of their own.
NEW_NAMESPACES = ("unshare", "--uts", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",)))
ON_THE_HOST = 'mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@"'
COUNT_RECORDS = """
import sys
from highwater.spark_loadgen.launcher import SparkLauncher
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.records import FixedSize, GeneratedPayload
from highwater.spark_loadgen.schedule import OpenSchedule
from tests.spark_loadgen.mock_broker import mock_broker

with SparkLauncher(sys.argv[1]) as spark, mock_broker() as broker:
    plan = LoadPlan(
        topics=(broker.new_topic(),), bootstrap_servers=broker.address, partitions=broker.PARTITIONS, producers=1,
        groups=1, consumers_per_group=1, schedule=OpenSchedule.constant(100.0), warmup=0, measure_s=1, drain_max_s=10,
        sizes=FixedSize(100), payload=GeneratedPayload(0.5), seed=7,
    )
    print(spark.run(plan).delivery.received, "received")
"""
DEADLINE_S = 300


def on_nameless_host(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    hosts = directory / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    inside = (*NEW_NAMESPACES, "sh", "-c", ON_THE_HOST, str(hosts), NAME, *command)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_LOCAL_")}
    return subprocess.run(inside, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


@pytest.fixture(autouse=True)
def _has_no_address(tmp_path: Path) -> None:
    """The other tests mean something only where nobody resolves the name."""
    tried = on_nameless_host(tmp_path, "sh", "-c", "hostname && ! getent hosts $(hostname)")
    if "unshare" in tried.stderr or "mount" in tried.stderr:
        pytest.skip(f"a host cannot have another name here: {tried.stderr.strip()}")
    assert (tried.returncode, tried.stdout) == (0, f"{NAME}\n"), tried.stderr


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_a_local_master_needs_no_name(tmp_path: Path, master: str) -> None:
    run = on_nameless_host(tmp_path, sys.executable, "-c", COUNT_RECORDS, master)
    assert (run.returncode, run.stdout) == (0, "100 received\n"), run.stderr[-2000:]


def test_any_other_master_reports_the_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        master = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        run = on_nameless_host(tmp_path, sys.executable, "-c", COUNT_RECORDS, master)
    error = run.stderr.strip().splitlines()[-1]
    assert f"this host's own name, {NAME}, has no address: add it to /etc/hosts, or set SPARK_LOCAL_IP" in error
