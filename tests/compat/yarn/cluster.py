"""One ResourceManager and one NodeManager of Hadoop in a JVM, all on loopback, driven through py4j."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.java_gateway import JavaGateway

from highwater.bench import maven
from highwater.bench.systems.java import java_for

SPARK_JARS: Final = Path(pyspark.__file__).parent / "jars"
_WHAT: Final = "Hadoop's YARN"
_POM: Final = Path(__file__).parent / "pom.xml"
_CONNECTED_WITHIN_MS: Final = 120_000
_SETTINGS: Final = {
    "yarn.resourcemanager.bind-host": "127.0.0.1",
    "yarn.nodemanager.webapp.address": "127.0.0.1:0",
    # Disks of a development host are often nearly full, and so small a cluster has no memory to guard.
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.scheduler.minimum-allocation-mb": "64",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
}
_CORE_SITE: Final = """\
<configuration><property><name>fs.defaultFS</name><value>file:///</value></property></configuration>
"""


def jars() -> Path:
    """Raises UsageError if this host lacks what it takes to fetch them."""
    return maven.jars(_POM, "hadoop-yarn", f"{_WHAT}: about 80 MB of jars", f"fetches {_WHAT}")


@contextmanager
def yarn_cluster(folder: Path) -> Iterator[Path]:
    """Yields the folder with its configuration, for HADOOP_CONF_DIR. Containers work, and write, below `folder`."""
    configuration = folder / "conf"
    configuration.mkdir(parents=True)
    (configuration / "core-site.xml").write_text(_CORE_SITE)
    options = ["-Xmx512m", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={folder}", f"-Dtest.build.data={folder}"]
    with (folder / "yarn.log").open("w") as log:
        gateway: Any = JavaGateway.launch_gateway(
            jarpath=str(next(SPARK_JARS.glob("py4j-*.jar"))),
            classpath=f"{jars()}/*:{SPARK_JARS}/*",
            java_path=java_for(_WHAT),
            javaopts=options,
            redirect_stdout=log,
            redirect_stderr=log,
            die_on_exit=True,
            cwd=str(folder),
        )
        try:
            cluster = _start(gateway.jvm, configuration / "yarn-site.xml")
            yield configuration
            cluster.stop()
        finally:
            gateway.shutdown()
            gateway.java_process.stdin.close()  # die_on_exit: with it, the JVM ends
            gateway.java_process.wait()


def _start(jvm: Any, site: Path) -> Any:
    settings = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for name, value in _SETTINGS.items():
        settings.set(name, value)
    cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("yarn", 1, 1, 1)
    cluster.init(settings)
    cluster.start()
    assert cluster.waitForNodeManagersToConnect(_CONNECTED_WITHIN_MS), "no NodeManager has come"
    output = jvm.java.io.FileOutputStream(str(site))
    cluster.getConfig().writeXml(output)
    output.close()
    return cluster
