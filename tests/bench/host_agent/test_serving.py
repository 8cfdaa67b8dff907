"""The agent as a process: who may ask it, and wrong calls, each one line."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from highwater.bench.host_agent.serving import access_of
from highwater.common.errors import UsageError
from highwater.common.host_answer import parse_answer
from tests.broker.server.certificates import Authority

COMMAND = (sys.executable, "-m", "highwater", "tune", "agent")
TOKEN = "0123456789abcdef"  # noqa: S105 - of this test


@contextmanager
def agent(*arguments: str, token: str | None = None) -> Iterator[str]:
    """Its address, as it prints it."""
    environment = {**os.environ, **({} if token is None else {"HIGHWATER_AGENT_TOKEN": token})}
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("agent of this host: ")
            yield line.removeprefix("agent of this host: ").partition("/host")[0]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def get(url: str, token: str | None = None, tls: ssl.SSLContext | None = None) -> str:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - of this test
    with urllib.request.urlopen(request, timeout=60, context=tls) as answer:  # noqa: S310
        return str(answer.read().decode())


def test_json_and_metrics_over_loopback() -> None:
    with agent("--listen", "127.0.0.1:0") as address:
        answer = parse_answer(get(f"{address}/host"))
        assert answer.host == os.uname().nodename
        names = {metric.name for metric in text_string_to_metric_families(get(f"{address}/metrics"))}
        assert {"highwater_host_memory_bytes", "highwater_host_tuning_info"} <= names
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(f"{address}/")


def test_over_tls_for_who_has_the_token(tmp_path: Path) -> None:
    authority = Authority()
    pem = authority.certify("agent").write_pem(tmp_path / "agent.pem")
    tls = ssl.create_default_context(cadata=authority.pem)
    files = ("--tls-certificate", str(pem), "--tls-key", str(pem))
    with agent("--listen", "127.0.0.1:0", *files, token=TOKEN) as address:
        assert address.startswith("https://")
        assert json.loads(get(f"{address}/host", TOKEN, tls))["schema"] == "host.agent/1"
        for wrong in (None, "another token of it"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                get(f"{address}/host", wrong, tls)


@pytest.mark.parametrize(
    ("listen", "files", "environment", "said"),
    [
        ("agent", {}, {}, "--listen: 'agent' is not HOST:PORT, such as 127.0.0.1:9646"),
        ("::1:9646", {}, {}, "is not HOST:PORT"),
        ("localhost:65536", {}, {}, "is not HOST:PORT"),
        ("0.0.0.0:0", {}, {}, "can be reached from other hosts: give a token .* and TLS"),
        ("[::]:0", {}, {"HIGHWATER_AGENT_TOKEN": TOKEN}, "can be reached from other hosts: give TLS"),
        ("h.example.org:0", {"token_file": TOKEN}, {}, "can be reached from other hosts: give TLS"),
        ("127.0.0.1:0", {"token_file": "short"}, {}, "a token has at least 16 characters"),
        ("127.0.0.1:0", {}, {"HIGHWATER_AGENT_TOKEN": ""}, "HIGHWATER_AGENT_TOKEN: a token has at least 16"),
        ("127.0.0.1:0", {"token_file": None}, {}, "token_file: cannot be read: No such file"),
        ("127.0.0.1:0", {"tls_key": "x"}, {}, "TLS needs both"),
        ("127.0.0.1:0", {"tls_key": "x", "tls_certificate": "x"}, {}, "cannot use them"),
        ("127.0.0.1:0", {"tls_key": "x", "tls_certificate": None}, {}, "--tls-certificate .*: no such file"),
    ],
)
def test_what_is_refused_before_anything_listens(
    tmp_path: Path, listen: str, files: dict[str, str | None], environment: dict[str, str], said: str
) -> None:
    paths: dict[str, Path | None] = {"token_file": None, "tls_certificate": None, "tls_key": None}
    for name, text in files.items():
        paths[name] = tmp_path / name
        if text is not None:
            (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=said):
        access_of(listen, environment=environment, **paths)


def test_a_token_does_not_come_back_in_an_error(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("säcret")
    with pytest.raises(UsageError) as caught:
        access_of("127.0.0.1:0", tmp_path / "token", None, None, {})
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "0.0.0.0:0"], "can be reached from other hosts"),
        (["--log-dir", "FILE"], "not a directory"),
        (["--broker-metrics", "x"], "not [DIR=]URL"),
        (["--broker-metrics", "/a=http://127.0.0.1:1/metrics"], "/a is no --log-dir of this call"),
        (["--broker-metrics", "http://a/", "--broker-metrics", "http://b/"], "a second page without a log directory"),
    ],
)
def test_a_wrong_call_gets_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "FILE").touch()
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
