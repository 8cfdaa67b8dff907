"""docs/secure-broker.md, every command as it stands: certificates, the broker, users, ACLs, and who is not let in."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.common.ports import free_ports
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "secure-broker.md"
START = "highwater broker start --config server.properties\n"
DENIED = "highwater broker consume -b localhost:9093 --command-config bob.properties"
DEADLINE_S = 120


class Walk:
    """A reader of the page: two terminals in one directory, and free ports in place of 9093 and 9094."""

    def __init__(self, directory: Path) -> None:
        text = PAGE.read_text("utf-8")
        for port, free in zip(("9093", "9094"), free_ports(2), strict=True):
            text = text.replace(f":{port}", f":{free}")
        self.blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        self.directory = directory
        self.broker: subprocess.Popen[bytes] | None = None
        programs = Path(sys.executable).parent
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}

    def run(self, commands: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-c", commands],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    def start(self, command: str) -> None:
        log = self.directory / "broker.out"
        with log.open("wb") as output:
            self.broker = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self.directory, env=self.environment, stdout=output
            )
        wait_until(lambda: "ready:" in log.read_text(), "the broker of the page", DEADLINE_S)


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    found = Walk(tmp_path)
    yield found
    if found.broker is not None:
        found.broker.terminate()
        assert found.broker.wait(DEADLINE_S) == 0


def test_the_page_runs_as_it_stands(walk: Walk) -> None:
    outputs = []
    for number, (language, text) in enumerate(walk.blocks):
        if language != "sh":
            continue
        if text == START:
            walk.start(text)
            continue
        done = walk.run(text)
        if DENIED.replace(":9093", "") in re.sub(r":\d+", "", text):
            told = walk.blocks[number + 1][1]
            assert (done.returncode, done.stderr) == (1, told)
        else:
            assert done.returncode == 0, done.stderr
            outputs.append(done.stdout)
        if "cd secure" in text:
            walk.directory = walk.directory / "secure"
    assert walk.broker is not None
    assert "the first order" in outputs[-1]
    lines = [json.loads(line) for line in (walk.directory / "audit.log").read_text().splitlines()]
    assert ("User:bob", "denied", "orders") in {
        (line["principal"], line["event"], line.get("resource_name")) for line in lines
    }

    # The table of errors.
    port = re.search(r"localhost:(\d+)", walk.blocks[-2][1])
    address = f"-b localhost:{port[1]}" if port else ""
    consume = f"highwater broker consume {address} --topic orders --from-beginning --max-messages 1"
    login = "--command-config alice.properties"
    for wrong, told in (
        ("sed s/ALICE-PASSWORD/x/", "refuses the login: SASL_AUTHENTICATION_FAILED"),
        ("sed s/SCRAM-SHA-512/PLAIN/", "does not take PLAIN; set sasl.mechanism to SCRAM-SHA-512"),
        ("grep -v ssl.ca.location", "ssl.ca.location must name the authority that signed its certificate"),
        ("sed s/SASL_SSL/PLAINTEXT/", "this client speaks PLAINTEXT: set security.protocol=SASL_SSL"),
        ("sed s/SASL_SSL/SSL/", "this client speaks SSL: set security.protocol=SASL_SSL"),
    ):
        failed = walk.run(f"{wrong} alice.properties > wrong.properties\n{consume} --command-config wrong.properties")
        assert (failed.returncode, failed.stderr.count("\n")) == (2, 1), failed.stderr
        assert told in failed.stderr
    denied = walk.run(f"highwater broker users {address} {login} --list")
    assert denied.returncode == 1
    assert "CLUSTER_AUTHORIZATION_FAILED; this client is User:alice: " in denied.stderr
