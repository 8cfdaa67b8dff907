"""The file of users, and the cost of passwords."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from highwater.monitor.passwords import ScryptCost, hashed, is_cheaper, matches
from highwater.monitor.users import Role, Users, UsersError

PASSWORD = "correct horse battery"  # noqa: S105 - of tests
CHEAP = ScryptCost(log2_n=4, r=8, p=1)


def test_a_hash_names_its_cost_and_has_a_salt_of_its_own() -> None:
    one, two = hashed(PASSWORD, CHEAP), hashed(PASSWORD, CHEAP)
    assert one.startswith("$scrypt$ln=4,r=8,p=1$")
    assert one != two
    assert matches(PASSWORD, one)
    assert matches(PASSWORD, two)
    assert not matches(PASSWORD + "x", one)
    assert not matches("", one)


def test_scrypt_is_that_of_rfc_7914() -> None:
    """The third vector of its section 12, of which this file's hashes keep the first half of the bytes."""
    phc = "$scrypt$ln=14,r=8,p=1$U29kaXVtQ2hsb3JpZGU$cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofI"
    assert matches("pleaseletmein", phc)
    assert not matches("pleaseletmeout", phc)


def test_an_accent_may_be_typed_in_two_ways() -> None:
    assert matches("cafe\u0301 au lait bitte", hashed("caf\u00e9 au lait bitte", CHEAP))


def test_a_login_raises_the_cost_of_an_old_hash(tmp_path: Path) -> None:
    users = Users(tmp_path / "users.db", cost=CHEAP)
    users.add("ada", PASSWORD, Role.ADMIN)
    users.close()
    dearer = ScryptCost(log2_n=5, r=8, p=1)
    users = Users(tmp_path / "users.db", cost=dearer)
    stored = "SELECT password FROM user"
    with sqlite3.connect(tmp_path / "users.db") as reader:
        assert is_cheaper(reader.execute(stored).fetchone()[0], dearer)
        assert users.password_is("ada", "wrong") is None
        assert is_cheaper(reader.execute(stored).fetchone()[0], dearer)
        assert users.password_is("ada", PASSWORD) is not None
        assert not is_cheaper(reader.execute(stored).fetchone()[0], dearer)
    reader.close()
    assert users.password_is("ada", PASSWORD) is not None
    users.close()


def test_users_and_sessions_outlive_the_monitor(tmp_path: Path) -> None:
    users = Users(tmp_path / "users.db", cost=CHEAP)
    users.add("ada", PASSWORD, Role.OPERATOR)
    user = users.password_is("ada", PASSWORD)
    assert user is not None
    token = users.open_session(user, "127.0.0.1", "x" * 5000)
    users.close()
    users = Users(tmp_path / "users.db", cost=CHEAP)
    session = users.session(token)
    assert session is not None
    assert (session.user.name, session.user.role, len(session.agent)) == ("ada", Role.OPERATOR, 200)
    assert users.session(token + "x") is None
    assert users.session("\udcff") is None
    users.close()


def test_one_of_two_set_ups_at_the_same_moment_wins(tmp_path: Path) -> None:
    users = Users(tmp_path / "users.db", cost=CHEAP)
    token = users.offer_set_up()
    outcomes: list[str] = []

    def try_it(name: str) -> None:
        try:
            users.set_up(token, name, PASSWORD)
            outcomes.append("made")
        except UsersError:
            outcomes.append("refused")

    threads = [threading.Thread(target=try_it, args=(f"user{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["made"] + ["refused"] * 7
    assert len(users.users()) == 1
    with pytest.raises(UsersError, match="There are users already"):
        users.offer_set_up()
    users.close()


@pytest.mark.parametrize("content", [b"no database at all, but a text" * 100, b"\0" * 5000])
def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "users.db"
    path.write_bytes(content)
    with pytest.raises(UsersError, match=r"users\.db: cannot be used"):
        Users(path, cost=CHEAP)
    assert path.read_bytes() == content


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "users.db"
    Users(path, cost=CHEAP).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(UsersError, match="newer version"):
        Users(path, cost=CHEAP)


def test_the_audit_keeps_the_newest_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.monitor.users._MOST_AUDIT_ROWS", 10)
    users = Users(tmp_path / "users.db", cost=CHEAP)
    for number in range(25):
        users.record("ada", "127.0.0.1", "login", str(number))
    assert [entry.target for entry in users.audit()] == [str(number) for number in range(24, 14, -1)]
    users.close()


def test_strangers_push_out_nothing_that_users_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.monitor.users._MOST_AUDIT_ROWS", 3)
    monkeypatch.setattr("highwater.monitor.users._MOST_ROWS_OF_STRANGERS", 2)
    now_s = 1000.0
    users = Users(tmp_path / "users.db", lambda: now_s, CHEAP)
    users.record("ada", "127.0.0.1", "remove user", "ben")
    for number in range(50):
        users.record_stranger("(unknown)", f"10.0.0.{number}", "login")
        users.record_stranger("(unknown)", f"10.0.0.{number}", "login")
    assert [(entry.action, entry.address) for entry in users.audit()] == [
        ("login", "10.0.0.49"),
        ("login", "10.0.0.48"),
        ("remove user", "127.0.0.1"),
    ]
    users.record_stranger("ada", "10.0.0.49", "login")
    now_s += 61
    users.record_stranger("ada", "10.0.0.49", "login")
    assert [(entry.user, entry.at_s) for entry in users.audit(2)] == [("ada", 1061), ("ada", 1000)]
    users.close()


OLD_SCHEMA = """
CREATE TABLE user (
  name TEXT PRIMARY KEY, password TEXT NOT NULL, role INTEGER NOT NULL, is_disabled INTEGER NOT NULL,
  changed_s REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE session (
  token_sha256 TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES user(name) ON DELETE CASCADE, created_s REAL NOT NULL,
  seen_s REAL NOT NULL, address TEXT NOT NULL, agent TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, user TEXT NOT NULL, address TEXT NOT NULL,
  action TEXT NOT NULL, target TEXT NOT NULL, is_allowed INTEGER NOT NULL
);
PRAGMA user_version = 1;
"""


def test_a_file_from_before_oidc_keeps_its_users_and_sessions(tmp_path: Path) -> None:
    path = tmp_path / "users.db"
    token_sha256 = hashlib.sha256(b"a token").hexdigest()
    with closing(sqlite3.connect(path)) as old:
        old.executescript(OLD_SCHEMA)
        old.execute("INSERT INTO user VALUES ('ada', ?, 3, 0, 1000)", (hashed(PASSWORD, CHEAP),))
        old.execute("INSERT INTO session VALUES (?, 'ada', 1000, 1000, '127.0.0.1', 'x')", (token_sha256,))
        old.commit()
    for _ in range(2):
        users = Users(path, lambda: 1001, CHEAP, issuer="https://sso.example")
        assert [(each.name, each.role, each.issuer) for each in users.users()] == [("ada", Role.ADMIN, "")]
        assert users.password_is("ada", PASSWORD) is not None
        assert users.session("a token") is not None
        person = users.of_provider("u1", "ben", Role.VIEWER)
        assert person is not None
        assert (person.name, person.issuer) == ("ben", "https://sso.example")
        users.remove("ben")
        users.close()


def test_several_processes_open_an_old_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "users.db"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(OLD_SCHEMA)
    opened: list[Users] = []
    threads = [threading.Thread(target=lambda: opened.append(Users(path, cost=CHEAP))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 8
    for users in opened:
        users.close()


def test_users_of_a_provider_have_no_password_and_count_only_with_it(tmp_path: Path) -> None:
    path = tmp_path / "users.db"
    users = Users(path, cost=CHEAP, issuer="https://sso.example", has_local=False)
    assert users.is_empty()
    boss = users.of_provider("u1", "boss", Role.ADMIN)
    assert boss is not None
    assert not users.is_empty()
    assert users.password_is("boss", "") is None
    with pytest.raises(UsersError, match="logs in by OIDC"):
        users.set_password("boss", PASSWORD)
    with pytest.raises(UsersError, match="local_users: false"):
        users.add("ada", PASSWORD, Role.ADMIN)
    with pytest.raises(UsersError, match="There would be no admin left"):
        users.set_disabled("boss", True)
    users.close()
    users = Users(path, cost=CHEAP)
    assert users.is_empty()
    assert users.offer_set_up()
    users.remove("boss")
    users.close()
