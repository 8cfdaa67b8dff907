"""cluster_security of an inventory: what each user may do, and what is refused before anything is changed."""

from __future__ import annotations

import re
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.broker.server.certificates import Authority
from tests.playbooks.modules import TREE, call, load
from tests.playbooks.playing import play_part

FILTERS = load("filter_plugins/highwater_cluster.py")
KEYS = load("library/highwater_keys.py")
HOST = "127.0.0.1"
GROUPS = {"zookeeper": ["a"], "brokers": ["a", "b"], "monitor": ["c"]}
PASSWORDS = dict.fromkeys(("broker", "verify", "monitor", "bench", "mirror"), "hush")
DOCUMENTATION = TREE.parent / "docs"


def hostvars(**changed: Any) -> dict[str, dict[str, Any]]:
    return {host: {"cluster_security": "tls", "ansible_host": "127.0.0.1", **changed} for host in ("a", "b", "c")}


def faults(**changed: Any) -> list[str]:
    found: list[str] = FILTERS.faults(hostvars(**changed), GROUPS)
    return found


def test_without_it_nothing_is_looked_at() -> None:
    plain = {"a": {"cluster_users": [{"name": "x y"}]}, "b": {"cluster_security": "none"}, "c": {}}
    assert FILTERS.faults(plain, GROUPS) == []
    assert faults() == []


def test_it_is_the_same_on_all_hosts_and_not_for_apache_kafka() -> None:
    mixed = {**hostvars(), "c": {}}
    (fault,) = FILTERS.faults(mixed, GROUPS)
    assert fault.startswith("cluster_security is tls for a, b and not for c; set it for all hosts")
    (fault,) = FILTERS.faults(hostvars(), {**GROUPS, "reference_kafka": ["a"]})
    assert fault.startswith("group reference_kafka has hosts (a)")


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"cluster_users": [{"name": "x y", "password": "hush"}]}, "cluster_users has the name 'x y'"),
        ({"cluster_users": [{"name": "highwater-x", "password": "hush"}]}, "cluster_users has the name 'highwater-x'"),
        ({"cluster_users": [{"name": "x", "password": ""}]}, "cluster_users x: its password is empty; take it from a"),
        ({"cluster_users": [{"name": "x", "password": "hush\nhush"}]}, "cluster_users x: its password has several"),
        ({"cluster_users": [{"name": "x", "password": 1234}]}, "cluster_users x: its password is a number or a truth"),
        ({"cluster_users": [{"name": "x", "password": "hush"}] * 2}, "cluster_users names x 2 times; name it once"),
        ({"cluster_passwords": {"bench": None}}, "cluster_passwords.bench is empty; take it from a vault"),
        ({"broker_properties": {"listeners": "PLAINTEXT://:1"}}, "a: property listeners of a broker follows from clus"),
        ({"cluster_certificate": "hush"}, "a: cluster_certificate needs cluster_authority"),
        ({"cluster_authority": "hush"}, "a: cluster_authority needs cluster_certificate and cluster_key of each host"),
    ],
)
def test_a_fault_is_one_sentence_without_values(changed: dict[str, Any], fault: str) -> None:
    found = faults(**changed)
    assert found[0].startswith(fault)
    assert "hush" not in " ".join(found)


@pytest.mark.parametrize(
    ("acl", "fault"),
    [
        ({"operations": ["read"]}, "an entry of acls names 0 resources; name one of topic, group"),
        ({"topic": "t", "group": "g", "operations": ["read"]}, "an entry of acls names 2 resources"),
        ({"topic": "t"}, "acls of topic t need operations, a list"),
        ({"topic": "t", "operations": ["raed"]}, "acls of topic have the operation raed; known are all, read"),
        ({"group": "g", "operations": ["write"]}, "acls of group have the operation write; known are"),
        ({"topic": "t", "pattern": "any", "operations": ["read"]}, "an entry of acls has the pattern any"),
    ],
)
def test_acls_that_nobody_could_have(acl: dict[str, Any], fault: str) -> None:
    (found,) = faults(cluster_users=[{"name": "x", "password": "p", "acls": [acl]}])
    assert found.startswith(f"cluster_users x: {fault}")


def given(authority: Authority, *names: str) -> dict[str, str]:
    pair = authority.certify("host", *names)
    return {
        "cluster_authority": authority.pem,
        "cluster_certificate": pair.certificate_pem,
        "cluster_key": pair.key_pem,
    }


def test_given_keys_that_fit_are_taken_and_others_told() -> None:
    authority, other = Authority(), Authority()
    mine, another = given(authority), given(other)
    assert faults(**mine) == []
    (fault, *_) = faults(**{**mine, "cluster_key": another["cluster_key"]})
    assert fault == "a: cluster_key does not belong to cluster_certificate; give the key that it was made for"
    (fault, *_) = faults(**{**mine, "cluster_authority": other.pem})
    assert fault.startswith("a: cluster_certificate is not signed by cluster_authority")
    (fault, *_) = faults(**mine, broker_address="b.example.net")
    assert fault.startswith("a: cluster_certificate is not for b.example.net, by which others find the host")
    assert faults(**given(authority, "b.example.net"), broker_address="b.example.net") == []


def test_a_given_certificate_has_to_be_for_servers_and_clients(tmp_path: Path) -> None:
    names = ["a", HOST]
    for is_client, expected in ((False, ["clients"]), (True, [])):
        made = call("highwater_keys", directory=str(tmp_path), name="a", names=names, is_client=is_client)
        texts = {f"cluster_{name}": made[name] for name in ("authority", "certificate", "key")}
        found = FILTERS.faults({"a": hostvars(**texts)["a"]}, {"brokers": ["a"]})
        assert [use for fault in found for use in re.findall(r"may not be used by (\w+),", fault)] == expected
        assert len(found) == len(expected)


@pytest.mark.parametrize("form", [PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8])
def test_a_given_key_and_certificate_are_one_file_for_java_and_openssl(form: PrivateFormat, tmp_path: Path) -> None:
    """Ansible's lookup of a file takes the end of the last line away, and ZooKeeper reads PKCS #8 alone."""
    pair = Authority().certify("host")
    key = pair.key.private_bytes(Encoding.PEM, form, NoEncryption()).decode().rstrip()
    text = FILTERS.key_store(key, pair.certificate_pem.rstrip())
    (tmp_path / "host.pem").write_text(text)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "host.pem")
    assert text.startswith("-----BEGIN PRIVATE KEY-----\n")
    made = pair.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    assert text == made + pair.certificate_pem, "what role keys makes stays as it is"
    assert FILTERS.key_store("", "") == "", "of check mode, which makes none"


def looked(tmp_path: Path, files: dict[str, str], running: str) -> list[str]:
    """What the look at a host says, with these files below /etc/highwater, and a systemctl that knows what runs."""
    variables = yaml.safe_load((TREE / "roles/cluster/vars/main.yml").read_text("utf-8"))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text(f'#!/bin/sh\ncase "$3" in {running}) exit 0 ;; esac; exit 3\n')
    (tmp_path / "bin/systemctl").chmod(0o755)
    script = variables["__cluster_look"].replace("/etc/highwater", str(tmp_path))
    done = subprocess.run(
        ["sh", "-c", script, "sh", variables["__cluster_mark"]],
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("listeners", "running", "told"),
    [
        ("listeners=PLAINTEXT://:9092", "highwater-broker@a.service", ["plain highwater-broker@a.service"]),
        # One that the operator gave, of which PLAINTEXT is not the first; or one of the name that ours have with TLS.
        ("listeners=SSL://:1,PLAINTEXT://:2", "highwater-broker@a.service", ["plain highwater-broker@a.service"]),
        ("listeners=CLIENTS://:1,PLAINTEXT://:2", "highwater-broker@a.service", ["plain highwater-broker@a.service"]),
        ("listeners=PLAINTEXT://:9092", "nothing", []),
    ],
)
def test_a_broker_without_our_tls_is_known_while_it_runs(
    listeners: str, running: str, told: list[str], tmp_path: Path
) -> None:
    assert looked(tmp_path, {"broker-a.properties": f"broker.id=1\n{listeners}\n"}, running) == told


def test_what_has_tls_is_known_with_the_authority_of_what_runs(tmp_path: Path) -> None:
    authority, other = Authority().pem, Authority().pem
    files = {
        "broker-a.properties": "listeners=CLIENTS://:1,BROKERS://:2\nsuper.users=User:highwater-broker;User:x\n",
        "zookeeper/zoo.cfg": "secureClientPort=2181\nauthProvider.sasl=x\n",
        "zookeeper/authority.pem": authority,
        "security/authority.pem": authority,
    }
    told = looked(tmp_path, files, "zookeeper.service")
    assert [line for line in told if not line.startswith("authority")] == [
        "secure zookeeper.service",
        "secure highwater-broker@a.service",
    ]
    answer = {"results": [{"__cluster_host": "a", "stdout": "\n".join(told)}, {"__cluster_host": "b"}]}
    assert FILTERS.found_on(answer, "secure") == ["a (zookeeper.service)", "a (highwater-broker@a.service)"]
    assert FILTERS.strangers(answer, authority) == []
    assert FILTERS.strangers(answer, other + authority.strip()) == [], "while both are trusted it may change"
    assert FILTERS.strangers(answer, other) == FILTERS.strangers(answer, "") == ["a"]


def test_another_password_of_brokers_that_run_is_known() -> None:
    told = 'sasl.jaas.config=x required username\\="highwater-broker" password\\="one";\n'
    answer = {
        "results": [
            {"__cluster_host": "a", "stdout": told},
            {"__cluster_host": "b", "stdout": ""},
            {"__cluster_host": "c", "unreachable": True},
        ]
    }
    for password, others in (("one", []), ("on", ["a"]), ("two", ["a"])):
        login = f'username\\="highwater-broker" password\\="{password}"'
        assert FILTERS.other_logins(answer, login) == others


def test_an_authority_that_expired_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KEYS, "AUTHORITY_DAYS", 0)
    KEYS.Keys(tmp_path, is_check_mode=False)._made(KEYS.AUTHORITY, [], None)
    monkeypatch.undo()
    expired = (tmp_path / "authority.pem").read_text("utf-8")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    answer = call("highwater_keys", directory=str(tmp_path), name="a", names=["a"])
    assert re.search(r"authority.pem expired on \d{4}-\d\d-\d\d; remove all .pem and .key there", answer["msg"])
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path in before} == before
    (fault, *_) = faults(**{**given(Authority()), "cluster_authority": expired})
    assert fault.startswith("a: cluster_authority expired on ")


def test_a_certificate_for_members_proves_both_sides(tmp_path: Path) -> None:
    plain = call("highwater_keys", directory=str(tmp_path), name="a", names=["a"])
    both = call("highwater_keys", directory=str(tmp_path), name="a", names=["a"], is_client=True)
    assert both["changed"], "a certificate of servers alone is made anew"
    uses = x509.load_pem_x509_certificate(both["certificate"].encode()).extensions.get_extension_for_class(
        x509.ExtendedKeyUsage
    )
    assert len(list(uses.value)) == 2
    again = call("highwater_keys", directory=str(tmp_path), name="a", names=["a"], is_client=True)
    assert (again["changed"], again["certificate"]) == (False, both["certificate"])
    assert plain["authority"] == both["authority"]


def test_names_of_a_certificate_are_all_by_which_a_host_is_found() -> None:
    variables = {"a": {"ansible_host": "10.0.0.1", "broker_address": "b.example.net", "highwater_address": "10.0.0.1"}}
    assert FILTERS.certificate_names("a", variables) == ["a", "b.example.net", "10.0.0.1", "localhost", "127.0.0.1"]


def commands(page: str) -> set[tuple[str, ...]]:
    """(principal, resource, name, pattern, operation) of each `acls --add` of a page."""
    found: set[tuple[str, ...]] = set()
    for text in re.findall(r"acls --add ((?:[^\n]*\\\n)*[^\n]*)", (DOCUMENTATION / page).read_text("utf-8")):
        words = text.partition("#")[0].replace("\\\n", " ").split()
        pairs = list(zip(words, [*words[1:], ""], strict=True))
        told = {name: [value for flag, value in pairs if flag == name] for name, _ in pairs if name.startswith("--")}
        if "--allow-principal" not in told:
            continue
        pattern = (told.get("--resource-pattern-type") or ["literal"])[0]
        kinds = (("--topic", "topic"), ("--group", "group"), ("--transactional-id", "transactional_id"))
        names = [(kind, name) for flag, kind in kinds for name in told.get(flag, [])]
        names += [("cluster", "kafka-cluster")] if "--cluster" in told else []
        for kind, name in names:
            for operation in told.get("--operation", []):
                snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).lower()
                found.add((told["--allow-principal"][0], kind, name, pattern, snake))
    return found


def test_the_bench_and_the_mirror_have_what_the_page_lists_and_no_more() -> None:
    wanted = {
        user: {row[1:] for row in commands("access-control.md") if row[0] == f"User:{user}"}
        for user in ("bench", "mirror")
    }
    mirror = {"source": "a", "target": "b", "topics": ["orders"], "groups": ["billing"], "prefix": "copy."}
    made: dict[str, set[tuple[str, ...]]] = {}
    for cluster in ("a", "b"):
        for user in FILTERS.users_of(cluster, [], [mirror]):
            keys = ("resource", "name", "pattern", "operation")
            acls = {tuple(acl[key] for key in keys) for acl in user["acls"]}
            made.setdefault(user["name"].removeprefix("highwater-"), set()).update(acls)
    assert made["bench"] == wanted["bench"]
    assert made["mirror"] == wanted["mirror"]
    assert "mirror" not in {user["name"] for user in FILTERS.users_of("a", [], [])}


def test_users_of_the_inventory_and_their_acls() -> None:
    acls = [
        {"cluster": True, "operations": ["Describe"]},
        {"topic": "o-", "pattern": "prefixed", "operations": ["read"]},
    ]
    users = [
        {"name": "alice", "password": "hush", "acls": acls},
        {"name": "admin", "password": "p", "super_user": True},
    ]
    found = FILTERS.users_of("a", users, [])
    alice = next(user for user in found if user["name"] == "alice")
    assert alice["acls"] == [
        {"resource": "cluster", "name": "kafka-cluster", "pattern": "literal", "operation": "describe", "host": "*"},
        {"resource": "topic", "name": "o-", "pattern": "prefixed", "operation": "read", "host": "*"},
    ]
    assert FILTERS.super_users(users) == "User:highwater-broker;User:admin"
    assert "password" not in alice, "passwords go another way, that Ansible does not log"
    told = FILTERS.passwords_of_users({"bench": "hush"}, users)
    assert told == {"highwater-bench": "hush", "alice": "hush", "admin": "p"}


def test_the_role_refuses_before_it_changes_anything(tmp_path: Path) -> None:
    variables = {
        "cluster_security": "tls",
        "keys_directory": str(tmp_path / "keys"),
        "cluster_users": [{"name": "ada", "password": "{{ vault_of_nobody }}"}],
    }
    inventory = {"hosts": {"a": variables}, "children": {"zookeeper": {"hosts": {"a": None}}}}
    played = play_part(tmp_path, "zookeeper", "main", inventory)
    text = " ".join((played.stdout + played.stderr).split())
    assert played.returncode != 0
    assert "cluster_users cannot be read" in text
    assert "vault_of_nobody" in text
    assert "nothing was changed on any host" in text
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize(
    ("security", "found", "says"),
    [
        (
            "tls",
            "plain zookeeper.service",
            "a (zookeeper.service): runs without TLS and logins, and",
        ),
        ("none", "secure highwater-broker@1.service", "has TLS and logins, and cluster_security is none"),
        ("none", "secure data in /x", "a (data in /x): has TLS and logins, and cluster_security is none"),
    ],
)
def test_half_a_cluster_is_refused(tmp_path: Path, security: str, found: str, says: str) -> None:
    inventory = {"hosts": {"a": None}, "children": {"zookeeper": {"hosts": {"a": None}}}}
    played = play_part(
        tmp_path, "cluster", "switch", inventory, cluster_security=security, __cluster_look=f"echo '{found}'"
    )
    text = " ".join((played.stdout + played.stderr).split())
    assert played.returncode != 0
    assert says in text
    assert "Nothing was changed on any host" in text


@pytest.mark.parametrize(
    ("started_with", "says"),
    [
        ("authProvider.sasl=x\n", "secure data in {}\n"),
        ("dataDir=/x\n", ""),
        (None, ""),
    ],
)
def test_what_a_teardown_left_of_a_secure_cluster_is_found(tmp_path: Path, started_with: str | None, says: str) -> None:
    if started_with is not None:
        (tmp_path / "started_with.cfg").write_text(started_with, "utf-8")
    variables = yaml.safe_load((TREE / "roles/cluster/vars/main.yml").read_text("utf-8"))
    command = ["sh", "-c", variables["__cluster_look"], "sh", variables["__cluster_mark"], str(tmp_path)]
    looked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (looked.stdout, looked.stderr) == (says.format(tmp_path), "")
