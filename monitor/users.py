"""Users of the monitor, their sessions and what they did, in a SQLite file of its own."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from highwater.monitor.passwords import Cost, hashed, is_cheaper, matches, password_problem

IDLE_S: Final = 30 * 60
ABSOLUTE_S: Final = 12 * 3600
SET_UP_S: Final = 15 * 60
_TOKEN_BYTES: Final = 32
# A session that is used all the time is written once in so long: reading a page should not cost a write.
_SEEN_EVERY_S: Final = 60
_MOST_AUDIT_ROWS: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS user (
  name TEXT PRIMARY KEY, password TEXT NOT NULL, role INTEGER NOT NULL, is_disabled INTEGER NOT NULL,
  changed_s REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS session (
  token_sha256 TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES user(name) ON DELETE CASCADE, created_s REAL NOT NULL,
  seen_s REAL NOT NULL, address TEXT NOT NULL, agent TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, user TEXT NOT NULL, address TEXT NOT NULL,
  action TEXT NOT NULL, target TEXT NOT NULL, is_allowed INTEGER NOT NULL
);
"""


class UsersError(Exception):
    """One line for the person who asked: what was refused, and the way out."""


class UsersUnwritableError(UsersError):
    """The disk of the file of users is full, or the file is locked or away. It is as before."""


class Role(IntEnum):
    """Who has a role may do what the roles below it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def title(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class User:
    name: str
    role: Role
    is_disabled: bool
    changed_s: float
    """Unix time of the last change of password, role or state."""


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    """SHA-256 of its token, which only the browser has."""
    user: User
    created_s: float
    seen_s: float
    address: str
    agent: str


@dataclass(frozen=True, slots=True)
class AuditEntry:
    at_s: float
    user: str
    """Empty if nobody was logged in."""
    address: str
    action: str
    target: str
    is_allowed: bool


class Users:
    """Every method may be called from any thread; only `add`, `password_is` and `set_password` take long (scrypt).

    `now_s` returns Unix time, because sessions outlive a start of the monitor.
    """

    def __init__(self, path: Path, now_s: Callable[[], float] = time.time, cost: Cost | None = None) -> None:
        self._now_s = now_s
        self._cost = cost or Cost()
        self._lock = threading.RLock()
        self._set_up: tuple[str, float] | None = None
        # A name that does not exist is compared with this one, so that both take the same time.
        self._decoy = hashed(secrets.token_hex(), self._cost)
        # One at a time: each try needs 128 MiB at the normal cost.
        self._hashing = threading.BoundedSemaphore(1)
        self._connection = _opened(path)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    # Users

    def users(self) -> list[User]:
        with self._lock:
            rows = self._connection.execute("SELECT name, role, is_disabled, changed_s FROM user ORDER BY name")
            return [_user(row) for row in rows]

    def add(self, name: str, password: str, role: Role) -> None:
        """Raises UsersError for a name that is taken or not allowed, and for a weak password."""
        self._add(name, password, role, only_as_first=False)

    def password_is(self, name: str, password: str) -> User | None:
        """The user if name and password are right and the user is not disabled; needs the same time in every case."""
        with self._lock:
            row = self._connection.execute(
                "SELECT name, role, is_disabled, changed_s, password FROM user WHERE name = ?", (name,)
            ).fetchone()
        stored = row[4] if row else self._decoy
        with self._hashing:
            right = matches(password, stored)
        if not right or row is None or row[2]:
            return None
        if is_cheaper(stored, self._cost):
            with self._hashing:
                dearer = hashed(password, self._cost)
            with self._transaction() as connection:
                connection.execute(
                    "UPDATE user SET password = ? WHERE name = ? AND password = ?", (dearer, name, stored)
                )
        return _user(row)

    def set_password(self, name: str, password: str) -> None:
        """Ends the user's sessions."""
        self._refuse_weak(password)
        with self._hashing:
            phc = hashed(password, self._cost)
        self._change(name, "password = ?", phc)

    def set_role(self, name: str, role: Role) -> None:
        """Ends the user's sessions. Raises UsersError if nobody would be admin any more."""
        self._change(name, "role = ?", int(role))

    def set_disabled(self, name: str, is_disabled: bool) -> None:
        """Ends the user's sessions. Raises UsersError if nobody would be admin any more."""
        self._change(name, "is_disabled = ?", int(is_disabled))

    def remove(self, name: str) -> None:
        """Raises UsersError if nobody would be admin any more."""
        with self._transaction() as connection:
            if not connection.execute("DELETE FROM user WHERE name = ?", (name,)).rowcount:
                raise UsersError(f"There is no user {name!r}.")
            self._refuse_without_admin(connection)

    # The first login

    def offer_set_up(self) -> str:
        """The token of a link with which the first user is made, once, within SET_UP_S.

        Raises UsersError if there are users.
        """
        with self._lock:
            if self.users():
                raise UsersError("There are users already: log in, or add one with: highwater monitor user add NAME")
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            self._set_up = (_sha256(token), self._now_s() + SET_UP_S)
            return token

    def is_set_up_offered(self, token: str) -> bool:
        with self._lock:
            if self._set_up is None or self.users():
                return False
            digest, deadline_s = self._set_up
            return secrets.compare_digest(_sha256(token), digest) and 0 <= deadline_s - self._now_s() <= SET_UP_S

    def set_up(self, token: str, name: str, password: str) -> None:
        """Makes the first user, who is an admin. Raises UsersError, also for a token that is old, used or unknown."""
        if not self.is_set_up_offered(token):
            raise UsersError("This link is used or older than 15 minutes. Start the monitor again for a new one.")
        self._add(name, password, Role.ADMIN, only_as_first=True)
        self._set_up = None

    # Sessions

    def open_session(self, user: User, address: str, agent: str) -> str:
        """The token for the browser; the file has its SHA-256 alone."""
        token, now_s = secrets.token_urlsafe(_TOKEN_BYTES), self._now_s()
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM session WHERE seen_s < ? OR created_s < ?", (now_s - IDLE_S, now_s - ABSOLUTE_S)
            )
            connection.execute(
                "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)",
                (_sha256(token), user.name, now_s, now_s, address, agent[:200]),
            )
        return token

    def session(self, token: str, is_use: bool = True) -> Session | None:
        """None if it is unknown, revoked, idle for IDLE_S or older than ABSOLUTE_S, or if its user is disabled.

        is_use: a person did something. A page that reads itself again is no use.
        """
        now_s = self._now_s()
        found = next(iter(self._sessions(now_s, "AND token_sha256 = ?", _sha256(token))), None)
        if found and is_use and now_s - found.seen_s >= _SEEN_EVERY_S:
            # A full disk must not lock out those who look for its reason.
            with suppress(UsersUnwritableError), self._transaction() as connection:
                connection.execute("UPDATE session SET seen_s = ? WHERE token_sha256 = ?", (now_s, found.id))
        return found

    def sessions(self) -> list[Session]:
        """Those that are valid, the newest first."""
        return self._sessions(self._now_s(), "ORDER BY created_s DESC")

    def end_session(self, session_id: str) -> bool:
        """False if there is none with this id."""
        with self._transaction() as connection:
            return connection.execute("DELETE FROM session WHERE token_sha256 = ?", (session_id,)).rowcount > 0

    # What users did

    def record(self, user: str, address: str, action: str, target: str = "", is_allowed: bool = True) -> None:
        with self._transaction() as connection:
            added = connection.execute(
                "INSERT INTO audit (at_s, user, address, action, target, is_allowed) VALUES (?, ?, ?, ?, ?, ?)",
                (self._now_s(), user[:64], address, action, target[:300], int(is_allowed)),
            )
            # Strangers can cause entries by failing to log in; the file must not grow without end.
            connection.execute("DELETE FROM audit WHERE id <= ?", ((added.lastrowid or 0) - _MOST_AUDIT_ROWS,))

    def audit(self, most: int = 1000) -> list[AuditEntry]:
        """The newest first."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT at_s, user, address, action, target, is_allowed FROM audit ORDER BY id DESC LIMIT ?", (most,)
            ).fetchall()
        return [AuditEntry(row[0], row[1], row[2], row[3], row[4], bool(row[5])) for row in rows]

    def _add(self, name: str, password: str, role: Role, only_as_first: bool) -> None:
        if not _NAME.fullmatch(name):
            raise UsersError("A user's name has 1 to 64 letters of A to Z, digits, and . _ @ - after the first one.")
        self._refuse_weak(password)
        with self._hashing:
            phc = hashed(password, self._cost)
        with self._transaction() as connection:
            if only_as_first and connection.execute("SELECT 1 FROM user").fetchone():
                raise UsersError("Somebody else has made the first user in the meantime.")
            try:
                connection.execute("INSERT INTO user VALUES (?, ?, ?, 0, ?)", (name, phc, int(role), self._now_s()))
            except sqlite3.IntegrityError:
                raise UsersError(f"There is a user {name!r} already.") from None

    def _change(self, name: str, assignment: str, value: str | int) -> None:
        with self._transaction() as connection:
            changed = connection.execute(
                f"UPDATE user SET {assignment}, changed_s = ? WHERE name = ?",
                (value, self._now_s(), name),
            )
            if not changed.rowcount:
                raise UsersError(f"There is no user {name!r}.")
            self._refuse_without_admin(connection)
            connection.execute("DELETE FROM session WHERE user = ?", (name,))

    def _sessions(self, now_s: float, which: str, *values: str) -> list[Session]:
        with self._lock:
            rows = self._connection.execute(
                "SELECT name, role, is_disabled, changed_s, token_sha256, created_s, seen_s, address, agent"
                " FROM session JOIN user ON user = name WHERE NOT is_disabled AND seen_s > ? AND created_s > ?"
                # A clock that was set back must not make a session live longer.
                f" AND created_s <= ? AND seen_s <= ? {which}",
                (now_s - IDLE_S, now_s - ABSOLUTE_S, now_s + _SEEN_EVERY_S, now_s + _SEEN_EVERY_S, *values),
            ).fetchall()
        return [Session(row[4], _user(row[:4]), *row[5:]) for row in rows]

    def _refuse_weak(self, password: str) -> None:
        if problem := password_problem(password):
            raise UsersError(problem)

    def _refuse_without_admin(self, connection: sqlite3.Connection) -> None:
        admins = "SELECT 1 FROM user WHERE role = ? AND NOT is_disabled"
        if not connection.execute(admins, (int(Role.ADMIN),)).fetchone():
            raise UsersError("Nobody would be admin any more. Make somebody else an admin first.")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException as error:
                # SQLite has ended the transaction by itself if the disk is full.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError):
                    raise UsersUnwritableError(
                        f"The monitor cannot write its file of users: {error}. Somebody with access to its host has to "
                        "free space there, or to give the file back; then try again."
                    ) from error
                raise


def _opened(path: Path) -> sqlite3.Connection:
    try:
        # Before SQLite makes the file with what the process's mask allows.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
        connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;")
            version = _SCHEMA_VERSION
    except (OSError, sqlite3.Error) as error:
        raise UsersError(f"{path}: cannot be used as the file of users: {error}") from error
    if version != _SCHEMA_VERSION:
        connection.close()
        raise UsersError(f"{path}: a newer version of Highwater has written this file of users")
    return connection


def _user(row: tuple[str, int, int, float]) -> User:
    name, role, is_disabled, changed_s, *_ = row
    return User(name, Role(role), bool(is_disabled), changed_s)


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
