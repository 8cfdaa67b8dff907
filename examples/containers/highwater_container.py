"""A broker for tests with Testcontainers for Python: `pip install testcontainers`."""

from __future__ import annotations

import io
import tarfile

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy


class HighwaterContainer(DockerContainer):
    """Clients on this machine use `bootstrap_server()`.

    The port of this machine is known only after the container has started, and the broker has to send clients to it.
    So a shell starts first, and waits for the command.
    """

    def __init__(self, image: str = "highwater:0.2.0") -> None:
        super().__init__(image, entrypoint="sh")
        self.with_exposed_ports(9092)
        self.with_command(["-c", "until [ -s /tmp/start ]; do sleep 0.1; done; . /tmp/start"])

    def start(self) -> HighwaterContainer:
        super().start()
        command = (
            "exec highwater broker start --config /etc/highwater/server.properties "
            f"--property advertised.listeners=PLAINTEXT://{self.bootstrap_server()}\n"
        ).encode()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            entry = tarfile.TarInfo("tmp/start")
            entry.size = len(command)
            archive.addfile(entry, io.BytesIO(command))
        self.get_wrapped_container().put_archive("/", packed.getvalue())
        LogMessageWaitStrategy("ready: listening").wait_until_ready(self)
        return self

    def bootstrap_server(self) -> str:
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(9092)}"
