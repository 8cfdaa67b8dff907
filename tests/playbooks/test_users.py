"""Modules of the playbooks at a broker with TLS, logins and ACLs: users are made once, and replicas are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ansible.module_utils import basic

from tests.broker.server.secured import PASSWORD, Secured, running_secured
from tests.playbooks.shipped import shipped

USERS = shipped("library/highwater_users.py")
PARTITIONS = shipped("library/highwater_partitions.py")
ACL = {"resource": "topic", "name": "orders", "pattern": "literal", "operation": "describe", "host": "*"}
AUTHORIZER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    with running_secured(folder, "broker.id=4", AUTHORIZER, "super.users=User:alice;User:ANONYMOUS") as found:
        yield found


def wanted(secured: Secured, *users: dict[str, Any]) -> dict[str, Any]:
    address = f"127.0.0.1:{secured.ports['SASL_SSL']}"
    return {
        "inside_servers": address,
        "bootstrap_servers": address,
        "authority": str(secured.ca),
        "username": "alice",
        "password": PASSWORD,
        "users": [{key: value for key, value in user.items() if key != "password"} for user in users],
        "passwords": {user["name"]: user["password"] for user in users},
        "timeout_seconds": 30,
    }


def made(*names: str, passwords: tuple[str, ...] = (), acls: int = 0) -> dict[str, Any]:
    return {"made": list(names), "given_passwords": list(passwords), "added_acls": acls}


def test_users_are_made_once_and_get_another_password_when_that_is_wanted(secured: Secured) -> None:
    bob = {"name": "bob", "password": 'hush "x" é', "acls": [ACL, {**ACL, "operation": "read"}]}
    one = wanted(secured, bob)
    assert USERS.ensure(one, is_check_mode=True) == made("bob", acls=2)
    assert USERS.ensure(one, is_check_mode=False) == made("bob", acls=2), "check mode has made nothing"
    assert USERS.ensure(one, is_check_mode=False) == made()
    assert USERS.can_log_in({"name": "bob"}, one)
    other = {**bob, "password": "another", "acls": [ACL]}
    two = wanted(secured, other, {"name": "carol", "password": "hush", "acls": []})
    assert USERS.ensure(two, is_check_mode=False) == made("carol", passwords=("bob",))
    assert not USERS.can_log_in({"name": "bob"}, {**two, "passwords": one["passwords"]})
    assert USERS.ensure(two, is_check_mode=False) == made()


def test_a_broker_that_says_neither_yes_nor_no_is_told(secured: Secured) -> None:
    bob = {"name": "bob", "password": "hush"}
    silent = {**wanted(secured, bob), "bootstrap_servers": "127.0.0.1:1", "timeout_seconds": 1}
    with pytest.raises(USERS.RefusedError, match="does not say whether bob may log in"):
        USERS.can_log_in(bob, silent)


def test_no_password_is_in_what_ansible_writes_into_the_journal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It takes passwords out of the text of a list as they are, and the text of a list has a backslash twice."""
    passwords = {"bob": 'a "b" \\ c', "carol": 'it\'s "so"'}
    own = "d \\ 'e' \"f\""
    given = {
        "inside_servers": "a:1",
        "bootstrap_servers": "a:2",
        "authority": "/a",
        "username": "alice",
        "password": own,
        "users": [{"name": name} for name in passwords],
        "passwords": passwords,
    }
    logged: list[str] = []
    monkeypatch.setattr(basic.AnsibleModule, "log", lambda _, message, log_args=None: logged.append(message))
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": given}).encode())
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy")
    monkeypatch.setattr(USERS, "ensure", lambda wanted, is_check_mode: {"made": sorted(wanted["passwords"])})
    with pytest.raises(SystemExit):
        USERS.main()
    (line,) = logged
    shown = line + capsys.readouterr().out
    assert "Invoked with" in line
    assert "carol" in line
    for password in [*passwords.values(), own]:
        for text in (password, repr(password)[1:-1], json.dumps(password)[1:-1]):
            assert text not in shown


def test_replicas_are_asked_for_with_tls_and_a_login(secured: Secured) -> None:
    address = f"127.0.0.1:{secured.ports['SASL_SSL']}"
    found = PARTITIONS.look([address], [4], PARTITIONS.Login(str(secured.ca), "alice", PASSWORD))
    assert (found["problems"], found["brokers"]) == ([], [4])
    wrong = PARTITIONS.look([address], [4], PARTITIONS.Login(str(secured.ca), "alice", "hush"))
    assert wrong["problems"] == [f"{address} refuses the login of alice"]
    plain = f"127.0.0.1:{secured.ports['PLAINTEXT']}"
    assert not PARTITIONS.look([plain], [4], PARTITIONS.Login(str(secured.ca), "alice", PASSWORD))["in_sync"]
    assert "hush" not in repr(PARTITIONS.Login("", "alice", "hush"))
