"""A broker of several real processes with TLS, logins and ACLs: one address for clients, a listener for themselves."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from highwater.broker.server.process_plan import ProcessPlan
from highwater.broker.server.start_check import SETUP_ERRORS
from highwater.broker.settings.config import Setting, read_properties_file
from tests.admin.calling import Result, call
from tests.broker.running import COMMAND, RunningBroker
from tests.broker.running_processes import children_of, free_ports_in_a_row
from tests.broker.server.certificates import Authority, Certified
from tests.waiting import wait_until

PROCESSES: Final = 2
DEADLINE_S: Final = 120.0
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PASSWORD: Final = "wonder, land"  # noqa: S105


class Home:
    """The files of such a broker and of its clients."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log_dir = directory / "home"
        self.authority = Authority()
        self.port = free_ports_in_a_row(2 * (PROCESSES + 1))
        self.inside_port = self.port + PROCESSES + 1
        self.store = directory / "broker.pem"
        self.renew(self.authority.certify("broker", "localhost"))
        (directory / "ca.pem").write_text(self.authority.pem)
        self.properties = {
            "listeners": f"CLIENTS://127.0.0.1:{self.port},INSIDE://127.0.0.1:{self.inside_port}",
            "advertised.listeners": f"CLIENTS://localhost:{self.port}",
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,INSIDE:SSL",
            "inter.broker.listener.name": "INSIDE",
            "ssl.keystore.location": str(self.store),
            "ssl.truststore.location": str(directory / "ca.pem"),
            "listener.name.inside.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.clients.plain.sasl.jaas.config": f'{_PLAIN} user_admin="{PASSWORD}";',
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:admin;User:CN=broker,O=Tests",
            "group.initial.rebalance.delay.ms": "0",
        }

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    def renew(self, certified: Certified) -> None:
        """Whole or not at all, as programs that renew certificates do it."""
        certified.write_pem(self.store.with_suffix(".new")).replace(self.store)
        self.serial = certified.certificate.serial_number

    def config(self, **changed: str) -> Path:
        named = self.properties | {name.replace("_", "."): text for name, text in changed.items()}
        file = self.directory / "server.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in named.items() if text))
        return file

    def start(self, **changed: str) -> RunningBroker:
        return RunningBroker(self.log_dir, "--config", str(self.config(**changed)), "--processes", str(PROCESSES))

    @property
    def options(self) -> list[Setting]:
        """What the command adds to the file."""
        own = {"log.dirs": str(self.log_dir), "highwater.processes": str(PROCESSES)}
        return [Setting("test", name, text) for name, text in own.items()]

    def refusal(self, **changed: str) -> str:
        """The last line of a start that fails before it is ready."""
        done = subprocess.run(
            [*COMMAND, "--config", self.config(**changed), "--log-dir", self.log_dir, "--processes", str(PROCESSES)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        return done.stderr.splitlines()[-1]

    def client(self, user: str, mechanism: str = "SCRAM-SHA-512") -> Path:
        module = _PLAIN if mechanism == "PLAIN" else _SCRAM
        file = self.directory / f"{user}.properties"
        file.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nssl.ca.location={self.directory / 'ca.pem'}\n"
            f'sasl.jaas.config={module} username="{user}" password="{PASSWORD}";\n'
        )
        return file

    def call(self, user: Path, *arguments: str, stdin: str = "") -> Result:
        return call(*arguments, "-b", self.address, "--command-config", user, stdin=stdin)

    def serial_at(self, port: int) -> int:
        """Of the certificate that a client is shown there, as OpenSSL's own client says."""
        shown = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{port}"],
            input=b"",
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        ).stdout
        read = ["openssl", "x509", "-noout", "-serial"]
        text = subprocess.run(read, input=shown, capture_output=True, timeout=DEADLINE_S, check=False).stdout.decode()
        return int(text.strip().removeprefix("serial=") or "0", 16)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def brokers() -> Iterator[list[RunningBroker]]:
    started: list[RunningBroker] = []
    yield started
    for broker in started:
        broker.kill()


@pytest.mark.slow
def test_users_acls_and_new_keys_count_in_every_process(home: Home, brokers: list[RunningBroker]) -> None:
    brokers.append(home.start())
    assert brokers[-1].address == home.address
    admin, alice = home.client("admin", "PLAIN"), home.client("alice")
    made = home.call(admin, "users", "--create", "--user", "alice", "--password-file", "-", stdin=f"{PASSWORD}\n")
    assert made.exit_code == 0, made.errors
    assert home.call(admin, "topics", "--create", "--topic", "orders", "--partitions", "4").exit_code == 0

    # Whichever process takes the connection at the one address knows the user, and what she may do.
    def is_refused() -> bool:
        refused = [home.call(alice, "produce", "--topic", "orders", stdin="no\n") for _ in range(4)]
        return all(each.exit_code == 1 for each in refused)

    wait_until(is_refused, "alice comes in, and may not write", DEADLINE_S)
    for options in (("--producer",), ("--consumer", "--group", "g")):
        added = home.call(admin, "acls", "--add", "--allow-principal", "User:alice", *options, "--topic", "orders")
        assert added.exit_code == 0, added.errors

    numbers = {str(number) for number in range(200)}

    def is_written() -> bool:
        written = home.call(alice, "produce", "--topic", "orders", stdin="".join(f"{each}\n" for each in numbers))
        return written.exit_code == 0

    wait_until(is_written, "every process knows the ACLs, and the records are there", DEADLINE_S)

    # A process that is killed comes back, and reaches the others with its certificate.
    killed = children_of(brokers[-1])
    os.kill(killed[1], signal.SIGKILL)
    wait_until(lambda: children_of(brokers[-1]).get(1, killed[1]) != killed[1], "it is started again", DEADLINE_S)
    read_all(home, alice, numbers, "--group", "g")

    # New keys: at the one address, and at the ports of every process, inside and outside.
    home.renew(home.authority.certify("broker", "localhost"))
    for port in range(home.port, home.port + 2 * (PROCESSES + 1)):
        if port == home.inside_port:
            continue
        wait_until(lambda port=port: home.serial_at(port) == home.serial, f"the new certificate at {port}", DEADLINE_S)  # type: ignore[misc]
    wait_until(
        lambda: (
            len([line for line in brokers[-1].log_text().splitlines() if "listener INSIDE: its files" in line])
            == PROCESSES
        ),
        "the processes come to each other with it",
        DEADLINE_S,
    )
    status = home.call(admin, "cluster", "status")
    assert status.exit_code == 0, status.output

    # The parent is killed: users and ACLs are in its journal.
    brokers[-1].kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in killed.values()), "no process is left")
    brokers.append(home.start())
    read_all(home, alice, numbers)
    assert brokers[-1].stop() == 0


def read_all(home: Home, user: Path, numbers: set[str], *options: str) -> None:
    """Come back when these values were read from the topic, from its beginning."""
    wanted = ("--topic", "orders", "--from-beginning", "--timeout-ms", "5000")
    found: set[str] = set()

    def is_all() -> bool:
        found.update(home.call(user, "consume", *wanted, *options).output.split())
        return found == numbers

    wait_until(is_all, f"{len(numbers)} records", DEADLINE_S)


@pytest.mark.slow
def test_scram_between_processes_needs_its_user_first(home: Home, brokers: list[RunningBroker]) -> None:
    jaas = "listener.name.inside.scram-sha-512.sasl.jaas.config"
    with_scram = {
        "listener_security_protocol_map": "CLIENTS:SASL_SSL,INSIDE:SASL_SSL",
        "sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-512",
        "listener_name_inside_sasl_enabled_mechanisms": "SCRAM-SHA-512",
        "listener_name_inside_ssl_client_auth": "",
        jaas.replace(".", "_"): f'{_SCRAM} username="node" password="{PASSWORD}";',
        "super_users": "User:admin;User:node;User:CN=broker,O=Tests",
    }
    refused = home.refusal(**with_scram)
    assert refused == (
        "error: the processes log in to each other as User:node with SCRAM-SHA-512, and there is no such user yet: "
        "start with sasl.mechanism.inter.broker.protocol=PLAIN or another inter.broker.listener.name, and create it "
        "with `highwater broker users --create --user node --mechanism SCRAM-SHA-512`"
    )
    assert not (home.log_dir / "metadata").exists()
    brokers.append(home.start())
    assert brokers[-1].stop() == 0
    assert home.refusal(**with_scram) == refused
    brokers.append(home.start())
    admin = home.client("admin", "PLAIN")
    made = home.call(admin, "users", "--create", "--user", "node", "--password-file", "-", stdin=f"{PASSWORD}\n")
    assert made.exit_code == 0, made.errors
    assert brokers[-1].stop() == 0
    brokers.append(home.start(**with_scram))
    assert home.call(admin, "topics", "--create", "--topic", "t", "--replication-factor", "2").exit_code == 0
    assert brokers[-1].stop() == 0


@pytest.mark.parametrize(
    ("changed", "refusal"),
    [
        (
            {"inter_broker_listener_name": "OTHER"},
            (
                "inter.broker.listener.name: OTHER is not one of the listeners (CLIENTS, INSIDE), so brokers could not "
                "reach each other"
            ),
        ),
        ({"ssl_keystore_location": "/nowhere.pem"}, "/nowhere.pem"),
        ({"listener_name_inside_ssl_truststore_location": "/nowhere.pem"}, "/nowhere.pem"),
        ({"listener_security_protocol_map": "CLIENTS:SASL_SSL"}, "INSIDE is not in listener.security.protocol.map"),
        ({"super_users": "admin"}, "super.users"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(home: Home, changed: dict[str, str], refusal: str) -> None:
    with pytest.raises(SETUP_ERRORS) as error:
        ProcessPlan.of([*read_properties_file(home.config(**changed)), *home.options])
    assert refusal in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_listeners_whose_ports_overlap_are_refused_before_anything_is_written(home: Home) -> None:
    listeners = f"CLIENTS://127.0.0.1:{home.port},INSIDE://127.0.0.1:{home.port + 1}"
    assert home.refusal(listeners=listeners) == (
        f"error: highwater.processes={PROCESSES}: CLIENTS and INSIDE both need port {home.port + 1}; each listener "
        f"needs {PROCESSES + 1} ports, its own and one for each process"
    )
    assert not home.log_dir.exists()
