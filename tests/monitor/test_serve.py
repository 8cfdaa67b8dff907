"""`highwater monitor serve` from end to end on a real broker, and each way in which it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.cookiejar import CookieJar
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner, Result

from highwater.cli import app
from highwater.common.child_process import HIGHWATER
from highwater.common.exit_codes import EXIT_USAGE
from highwater.common.ports import free_ports
from highwater.monitor import serve_command
from tests.broker.running import RunningBroker, running_broker
from tests.processes import runs
from tests.waiting import wait_until

PASSWORD = "correct horse battery"  # noqa: S105 - of a monitor that lives as long as a test
TOKEN = "0123456789abcdef-of-a-test"  # noqa: S105
TOPIC, GROUP, RECORDS, COMMITTED = "orders", "billing", 900, {0: 50, 1: 7, 2: 0}


class Browser:
    def __init__(self, base: str) -> None:
        self.base = base
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def get(self, path: str) -> str:
        return str(self._opener.open(self.base + path, timeout=60).read().decode())

    def json(self, path: str) -> Any:
        return json.loads(self.get(path))

    def post(self, form_at: str, to: str, **fields: str) -> str:
        """Fill in the form that is at an address; returns where that leads."""
        page = self.get(form_at)
        token = re.search(r'name="form_token" value="([^"]+)"', page)
        assert token, page
        data = urllib.parse.urlencode({"form_token": token[1], **fields}).encode()
        request = urllib.request.Request(self.base + to, data, {"Origin": self.base})  # noqa: S310
        with self._opener.open(request, timeout=60) as answer:
            return str(answer.geturl())


def command(*arguments: str | Path) -> list[str]:
    return [*HIGHWATER, *map(str, arguments)]


@contextmanager
def serving(log: Path, *arguments: str | Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The process, and what it printed until it serves."""
    with log.open("wb") as output:
        process = subprocess.Popen(command("monitor", "serve", *arguments), stdout=output, stderr=subprocess.STDOUT)
    try:

        def is_there() -> bool:
            assert process.poll() is None, log.read_text()
            return "history: " in log.read_text()

        wait_until(is_there, "the monitor", 120)
        yield process, log.read_text()
    finally:
        process.kill()
        process.wait()


def address_in(text: str) -> str:
    found = re.search(r"^monitor of \S+: (http://127\.0\.0\.1:\d+)/$", text, re.MULTILINE)
    assert found, text
    return found[1]


def fill(broker: RunningBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    for future in admin.create_topics([NewTopic(TOPIC, 3, 1)], operation_timeout=60).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"x" * 100, partition=number % 3)
    assert producer.flush(60) == 0
    with_group = Consumer({"bootstrap.servers": broker.address, "group.id": GROUP})
    with_group.commit(offsets=[TopicPartition(TOPIC, *each) for each in COMMITTED.items()], asynchronous=False)
    with_group.close()


def lag_by_librdkafka(broker: RunningBroker) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": GROUP})
    committed = consumer.committed([TopicPartition(TOPIC, partition) for partition in COMMITTED], 20)
    ends = {each.partition: consumer.get_watermark_offsets(each, 20)[1] for each in committed}
    consumer.close()
    return {each.partition: ends[each.partition] - each.offset for each in committed}


@pytest.mark.slow
def test_one_command_shows_a_real_cluster_from_the_first_login_on(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    config = tmp_path / "monitor.yaml"
    config.write_text(
        "tick: 1s\nname: test\nmetrics:\n  token_file: token\n  listen: 127.0.0.1:0\n  partitions: true\n"
    )
    with running_broker(tmp_path / "broker") as broker:
        fill(broker)
        options = ("-b", broker.address, "-c", config, "--listen", "127.0.0.1:0", "--data", tmp_path / "data")
        with serving(tmp_path / "first.log", *options) as (process, text):
            browser = Browser(address_in(text))
            (link,) = re.findall(r"(/setup\?token=\S+)", text)
            token = link.partition("=")[2]
            browser.post(link, "/setup", token=token, name="ada", password=PASSWORD, again=PASSWORD)
            with pytest.raises(urllib.error.HTTPError, match="404"):  # the link works once
                Browser(browser.base).get(link)
            assert "Log in" in browser.get("/")
            assert browser.post("/login", "/login", name="ada", password=PASSWORD) == f"{browser.base}/"
            # A tick in which a starved broker does not answer in time shows less.
            wait_until(lambda: "1 broker" in browser.get("/"), "the broker")
            wait_until(lambda: TOPIC in browser.get("/topics"), "the topic")
            wait_until(lambda: GROUP in browser.get("/groups"), "the group")

            lags = lag_by_librdkafka(broker)
            assert lags == {partition: 300 - offset for partition, offset in COMMITTED.items()}
            groups = [(GROUP, sum(lags.values()))]
            wait_until(lambda: rows_of(browser, "groups", "group", "lag") == groups, "the lag")
            wait_until(lambda: (TOPIC, 3) in rows_of(browser, "topics", "topic", "partitions"), "the partitions")
            check_metrics(browser.base, text, lags)
            shown = run("top", "-b", broker.address, "--once")
            assert shown.returncode == 0, shown.stderr
            row = next(line.split() for line in shown.stdout.splitlines() if line.startswith(GROUP))
            assert row[4] == str(sum(lags.values()))

            wait_until(lambda: ticks_in(tmp_path / "data" / "history.db") > 1, "a second tick in the history")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        check_history(tmp_path / "data" / "history.db")
        # Again: the user is there, so that no link is offered, and the history goes on.
        with serving(tmp_path / "again.log", *options) as (process, text):
            assert "setup" not in text
            browser = Browser(address_in(text))
            browser.post("/login", "/login", name="ada", password=PASSWORD)
            wait_until(lambda: GROUP in browser.get("/groups"), "the group")
            broker.kill()
            # The pages stay, and say what is wrong.
            wait_until(lambda: "does not answer" in browser.get("/") or "cannot be reached" in browser.get("/"), "it")
            assert GROUP in browser.get("/groups")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    for name in ("first.log", "again.log"):
        assert "Traceback" not in (tmp_path / name).read_text()
    done = run("monitor", "export", "--parquet", tmp_path / "out", "--data", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "topic_raw.parquet").is_file()


def rows_of(browser: Browser, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in browser.json(f"/api/v1/{table}")["rows"]]


def check_metrics(base: str, text: str, lags: dict[int, int]) -> None:
    (own,) = re.findall(r"^metrics: (\S+)$", text, re.MULTILINE)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{base}/metrics", timeout=60)  # noqa: S310

    def is_told(url: str) -> bool:
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            found = {each.name: each.samples for each in text_string_to_metric_families(answer.read().decode())}
        lag = {int(each.labels["partition"]): each.value for each in found.get("kafka_consumergroup_lag", ())}
        return (lag, [each.value for each in found["kafka_brokers"]]) == (lags, [1])

    for url in (f"{base}/metrics", own):
        wait_until(partial(is_told, url), url)


def check_history(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        lag = "select max(r.lag) from group_raw r join entity e on e.id = r.entity_id where e.name = ?"
        assert connection.execute(lag, (GROUP,)).fetchone() == (RECORDS - sum(COMMITTED.values()),)


def ticks_in(file: Path) -> int:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return int(connection.execute("select count(*) from cluster_raw").fetchone()[0])


@pytest.mark.slow
def test_the_demo_starts_and_leaves_nothing_behind(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    arguments = command("monitor", "demo", "--brokers", "1", "--listen", "127.0.0.1:0", "--no-browser")
    with log.open("wb") as output:
        process = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        wait_until(lambda: "history: " in log.read_text() or process.poll() is not None, "the demo", 120)
        assert process.poll() is None, log.read_text()
        started = psutil.Process(process.pid).children(recursive=True)
        (state,) = tmp_path.glob("highwater-demo-*/cluster/cluster.json")
        started += [psutil.Process(each["pid"]) for each in json.loads(state.read_text())["processes"].values()]
        assert len(started) >= 3  # a broker, its ZooKeeper, the load
    finally:
        process.send_signal(signal.SIGINT)
        status = process.wait(120)
    assert status == 0, log.read_text()
    assert not any(map(runs, started))
    assert not list(tmp_path.glob("highwater-demo-*"))
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_a_monitor_may_start_before_its_cluster(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = tmp_path / "monitor.yaml"
    config.write_text("tick: 1s\n")
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    added = run(
        "monitor", "user", "add", "ada", "--role", "admin", "--password-file", tmp_path / "password", "--data", tmp_path
    )
    assert added.returncode == 0, added.stderr
    address = f"127.0.0.1:{port}"
    with serving(tmp_path / "log", "-b", address, "-c", config, "--listen", "0", "--data", tmp_path) as (_, text):
        browser = Browser(address_in(text))
        browser.post("/login", "/login", name="ada", password=PASSWORD)
        wait_until(lambda: address in browser.get("/"), "a page that names it")
        with running_broker(tmp_path / "broker", port=port):
            wait_until(lambda: browser.json("/api/v1/cluster").get("brokers_alive") == 1, "the broker", 180)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Of 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private)
    return folder / "cert.pem", folder / "key.pem"


@pytest.mark.slow
def test_with_a_user_and_tls_it_listens_on_every_address(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    user = ("ada", "--role", "admin", "--password-file", tmp_path / "password")
    assert run("monitor", "user", "add", *user, "--data", tmp_path).returncode == 0
    chain, key = certificate(tmp_path)
    tls = ("--tls-certificate", chain, "--tls-key", key)
    with serving(tmp_path / "log", "-b", "127.0.0.1:9", "--listen", "0.0.0.0:0", "--data", tmp_path, *tls) as (_, text):
        (port,) = re.findall(r"https://0\.0\.0\.0:(\d+)/", text)
        base = f"https://127.0.0.1:{port}"
        context = ssl.create_default_context(cafile=str(chain))
        with urllib.request.urlopen(f"{base}/login", timeout=60, context=context) as answer:  # noqa: S310
            assert "__Host-" in answer.headers["set-cookie"]
            assert "Secure" in answer.headers["set-cookie"]
        wait_until(lambda: "no answer yet: broker 127.0.0.1:9 cannot" in (tmp_path / "log").read_text(), "the silence")
    swapped = ("--listen", "0", "--tls-certificate", key, "--tls-key", chain)
    broken = run("monitor", "serve", "-b", "a:1", "--data", tmp_path, *swapped)
    assert broken.returncode == EXIT_USAGE
    assert "TLS: cannot use the certificate or its key" in broken.stderr


# -- What is refused ---------------------------------------------------------------------------------------------------


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "120"}
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, timeout=120, env=environment
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("serve",), "which cluster? give -b HOST:PORT"),
        (("serve", "-b", "nowhere"), "'nowhere' is not a broker"),
        (("serve", "-b", "a:1", "--listen", "0.0.0.0:0"), "--listen: 0.0.0.0 can be reached from other hosts"),
        (
            ("serve", "-b", "a:1", "--listen", "0.0.0.0:0"),
            "give --tls-certificate FILE and --tls-key FILE, or",
        ),
        (("serve", "-b", "a:1", "--listen", "0.0.0.0:0", "--behind-proxy"), "there is no user yet"),
        (("serve", "-b", "a:1", "--listen", "127.0.0.1:x"), "--listen: '127.0.0.1:x' is not HOST:PORT"),
        (("serve", "-b", "a:1", "--tls-key", "{data}/none"), "TLS needs both"),
        (("serve", "-b", "a:1", "-c", "{data}/none.yaml"), "none.yaml: no such file"),
        (("serve", "-b", "a:1", "--command-config", "{data}/none"), "none: cannot read it: No such file"),
        (("export", "--parquet", "{data}/out"), "which monitor? give --data DIR"),
        (("user", "add", "ada", "--data", "{data}", "--role", "amin"), "no such role; did you mean admin?"),
        (("user", "add", "ada", "--data", "{data}"), "give --password-file FILE"),
        (("user", "remove", "ada", "--data", "{data}/none"), "none: no monitor keeps users there"),
        (("user", "list", "--data", "{data}/none"), "none: no monitor keeps users there"),
        (("top", "-b", "127.0.0.1:9"), "there is no terminal to draw on: use --once"),
        (("top", "-b", "127.0.0.1:9", "--once"), "127.0.0.1:9 cannot be reached: Connection refused; -b HOST:PORT"),
    ],
)
def test_what_cannot_work_is_one_line_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], says: str
) -> None:
    # These are for the whole process.
    monkeypatch.setattr(serve_command, "hold_less_memory", lambda: None)
    monkeypatch.setattr(serve_command, "log_to_standard_error", lambda level: None)
    given = [argument.format(data=tmp_path) for argument in arguments]
    with_data = ["--data", str(tmp_path / "none")] if given[0] == "serve" and len(given) > 3 else []
    done = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["monitor", *given, *with_data])
    assert done.exit_code == EXIT_USAGE, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert says in line
    assert not (tmp_path / "none").exists()


def test_a_taken_port_is_told(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("monitor", "serve", "-b", "a:1", "--data", tmp_path / "new", "--listen", str(port))
    way_out = "name another port, or 0 for a free one"
    assert done.returncode == EXIT_USAGE
    assert done.stderr == f"error: --listen 127.0.0.1:{port}: cannot listen there: Address already in use; {way_out}\n"
    assert not (tmp_path / "new").exists(), "no data is left of a monitor that never ran"


def test_a_monitor_that_has_not_run_yet_has_no_users(tmp_path: Path) -> None:
    # The role of the playbooks asks it before the first start.
    file = tmp_path / "monitor.yaml"
    file.write_text(f"data: {tmp_path / 'data'}\nbootstrap_servers: 127.0.0.1:9092\n", "utf-8")
    listed = run("monitor", "user", "list", "-c", file)
    assert (listed.returncode, listed.stdout) == (0, ""), listed.stderr
    assert listed.stderr.startswith("There are no users")


def test_users_are_added_listed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")

    def user(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["monitor", "user", *arguments, "--data", str(tmp_path / "data")])

    for name, role in (("ada", "admin"), ("bob", "viewer")):
        done = user("add", name, "--role", role, "--password-file", str(tmp_path / "password"))
        assert (done.exit_code, done.stderr) == (0, "")
    assert user("list").stdout == "ada\tadmin\nbob\tviewer\n"
    assert user("remove", "bob").exit_code == 0
    assert user("list").stdout == "ada\tadmin\n"
    assert user("remove", "bob").stderr == "error: There is no user 'bob'.\n"
