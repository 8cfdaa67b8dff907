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

from highwater.common.errors import UsageError
from highwater.monitor.passwords import ScryptCost, hashed, is_cheaper, matches, password_problem

IDLE_S: Final = 30 * 60
ABSOLUTE_S: Final = 12 * 3600
SET_UP_S: Final = 15 * 60
FILE_OF_USERS: Final = "users.db"
"""It is in the folder of a monitor's data."""
_TOKEN_BYTES: Final = 32
# A session that is used all the time is written once in so long: reading a page should not cost a write.
_SEEN_EVERY_S: Final = 60
_MOST_AUDIT_ROWS: Final = 100_000
_MOST_ROWS_OF_STRANGERS: Final = 10_000
_SAME_TRY_S: Final = 60
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_NOT_OF_A_NAME: Final = re.compile(r"[^A-Za-z0-9._@-]")
_SCHEMA_VERSION: Final = 3
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
# Who logs in by OIDC has no password, and is known by these two; a local user has them empty.
_FROM_1_TO_2: Final = """
ALTER TABLE user ADD COLUMN issuer TEXT NOT NULL DEFAULT '';
ALTER TABLE user ADD COLUMN subject TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX user_of_provider ON user(issuer, subject) WHERE issuer <> '';
"""
# Of strangers are the tries of those who have no session.
_FROM_2_TO_3: Final = """
ALTER TABLE audit ADD COLUMN is_of_stranger INTEGER NOT NULL DEFAULT 0;
CREATE INDEX audit_of_kind ON audit(is_of_stranger, id);
CREATE INDEX audit_of_strangers ON audit(address, action, user, at_s) WHERE is_of_stranger;
"""
_COLUMNS: Final = "name, role, is_disabled, changed_s, issuer"
# A user counts as long as the configuration lets such users in.
_COUNTS: Final = "(CASE issuer WHEN '' THEN :has_local ELSE issuer = :issuer END)"


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
    issuer: str = ""
    """The OIDC provider that says who the user is; empty for a local user, who has a password."""


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

    `now_s` returns Unix time, because sessions outlive a start of the monitor. `issuer` is the OIDC provider whose
    users may log in, if there is one. Users whom the configuration no longer lets in have no valid session and no say.
    """

    def __init__(
        self,
        path: Path,
        now_s: Callable[[], float] = time.time,
        cost: ScryptCost | None = None,
        *,
        issuer: str = "",
        has_local: bool = True,
    ) -> None:
        self._now_s = now_s
        self._issuer = issuer
        self._has_local = has_local
        self._cost = cost or ScryptCost()
        self._lock = threading.RLock()
        self._set_up: tuple[str, float] | None = None
        # A name that does not exist is compared with this one, so that both take the same time.
        self._decoy = hashed(secrets.token_hex(), self._cost)
        # One at a time: each try needs 32 MiB at the normal cost.
        self._hashing = threading.BoundedSemaphore(1)
        self._connection = _opened(path)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    # Users

    def users(self) -> list[User]:
        with self._lock:
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM user ORDER BY name")
            return [_user(row) for row in rows]

    @property
    def has_local(self) -> bool:
        """Whether people with a password may log in."""
        return self._has_local

    def is_empty(self) -> bool:
        """Whether nobody is known who may log in."""
        with self._lock:
            return not self._connection.execute(f"SELECT 1 FROM user WHERE {_COUNTS}", self._who()).fetchone()

    def add(self, name: str, password: str, role: Role) -> None:
        """Raises UsersError for a name that is taken or not allowed, for a weak password, and without local users."""
        if not self._has_local:
            raise UsersError("Password login is switched off: the configuration says local_users: false.")
        self._add(name, password, role, only_as_first=False)

    def password_is(self, name: str, password: str) -> User | None:
        """The user if name and password are right and the user is not disabled; needs the same time in every case."""
        with self._lock:
            row = self._connection.execute(
                f"SELECT {_COLUMNS}, password FROM user WHERE name = ? AND issuer = '' AND ?", (name, self._has_local)
            ).fetchone()
        stored = row[5] if row else self._decoy
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
        """Ends the user's sessions. Raises UsersError for a weak password, and for a user of the provider."""
        self._refuse_of_provider(name)
        self._refuse_weak(password)
        with self._hashing:
            phc = hashed(password, self._cost)
        self._change(name, "password = ?", phc)

    def set_role(self, name: str, role: Role) -> None:
        """Ends the user's sessions. Raises UsersError if nobody would be admin any more, and for a provider's user."""
        self._refuse_of_provider(name)
        self._change(name, "role = ?", int(role))

    def set_disabled(self, name: str, is_disabled: bool) -> None:
        """Ends the user's sessions. Raises UsersError if nobody would be admin any more."""
        self._change(name, "is_disabled = ?", int(is_disabled))

    def remove(self, name: str) -> None:
        """Raises UsersError if nobody would be admin any more; the provider's users come back with their next login."""
        with self._transaction() as connection:
            removed = connection.execute("DELETE FROM user WHERE name = ? RETURNING issuer", (name,)).fetchall()
            if not removed:
                raise UsersError(f"There is no user {name!r}.")
            if not removed[0][0]:
                self._refuse_without_admin(connection)

    # Users of the OIDC provider

    def of_provider(self, subject: str, wanted_name: str, role: Role) -> User | None:
        """The user whom the provider knows as `subject`, from now on with `role`; None if an admin disabled the user.

        Who is new gets `wanted_name`, or a name like it if somebody else has it, and keeps it.
        """
        with self._transaction() as connection:
            known = connection.execute(
                f"SELECT {_COLUMNS} FROM user WHERE issuer = ? AND subject = ?", (self._issuer, subject)
            ).fetchone()
            if known is not None and known[2]:
                return None
            name = known[0] if known is not None else self._free_name(connection, subject, wanted_name)
            if known is None:
                connection.execute(
                    "INSERT INTO user VALUES (?, '', ?, 0, ?, ?, ?)",
                    (name, int(role), self._now_s(), self._issuer, subject),
                )
            elif known[1] != role:
                connection.execute(
                    "UPDATE user SET role = ?, changed_s = ? WHERE name = ?", (int(role), self._now_s(), name)
                )
            return _user(connection.execute(f"SELECT {_COLUMNS} FROM user WHERE name = ?", (name,)).fetchone())

    def end_sessions_of(self, subject: str) -> None:
        """End the sessions of a provider's user who has no role any more."""
        whose = "user = (SELECT name FROM user WHERE issuer = ? AND subject = ?)"
        with self._transaction() as connection:
            connection.execute(f"DELETE FROM session WHERE {whose}", (self._issuer, subject))

    def _free_name(self, connection: sqlite3.Connection, subject: str, wanted: str) -> str:
        """Never that of another user: who may choose a name at the provider must not look like somebody else."""
        name = _NOT_OF_A_NAME.sub("_", wanted).lstrip("._@-")[:64] or "oidc"
        if connection.execute("SELECT 1 FROM user WHERE name = ?", (name,)).fetchone():
            name = f"{name[:47]}.{_sha256(f'{self._issuer} {subject}')[:16]}"
        return name

    # The first login

    def offer_set_up(self) -> str:
        """The token of a link with which the first user is made, once, within SET_UP_S.

        Raises UsersError if there are users.
        """
        with self._lock:
            if not self.is_empty():
                raise UsersError("There are users already: log in, or add one with: highwater monitor user add NAME")
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            self._set_up = (_sha256(token), self._now_s() + SET_UP_S)
            return token

    def is_set_up_offered(self, token: str) -> bool:
        with self._lock:
            if self._set_up is None or not self.is_empty():
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
        found = next(iter(self._sessions(now_s, "AND token_sha256 = :token", token=_sha256(token))), None)
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
            self._record(connection, user, address, action, target, is_allowed)
            self._keep_newest(connection, is_of_stranger=False, most=_MOST_AUDIT_ROWS)

    def record_stranger(self, name: str, address: str, action: str, target: str = "") -> None:
        """A try of somebody without a session: one entry for each name, address and action in a minute.

        These entries are counted by themselves, so that no stranger can push out what users did. `name` is one that
        exists, or none: what was typed may be a password.
        """
        since_s = self._now_s() - _SAME_TRY_S
        with self._transaction() as connection:
            same = "address = ? AND action = ? AND user = ? AND at_s > ? AND is_of_stranger"
            if not connection.execute(f"SELECT 1 FROM audit WHERE {same}", (address, action, name, since_s)).fetchone():
                self._record(connection, name, address, action, target, is_allowed=False, is_of_stranger=True)
                self._keep_newest(connection, is_of_stranger=True, most=_MOST_ROWS_OF_STRANGERS)

    def _record(
        self,
        connection: sqlite3.Connection,
        user: str,
        address: str,
        action: str,
        target: str,
        is_allowed: bool,
        is_of_stranger: bool = False,
    ) -> None:
        connection.execute(
            "INSERT INTO audit (at_s, user, address, action, target, is_allowed, is_of_stranger) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (self._now_s(), user[:64], address, action, target[:300], int(is_allowed), int(is_of_stranger)),
        )

    def _keep_newest(self, connection: sqlite3.Connection, *, is_of_stranger: bool, most: int) -> None:
        """The file must not grow without end."""
        connection.execute(
            "DELETE FROM audit WHERE is_of_stranger = ?1 AND id <= "
            "(SELECT id FROM audit WHERE is_of_stranger = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
            (int(is_of_stranger), most),
        )

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
            if only_as_first and not self.is_empty():
                raise UsersError("Somebody else has created the first user in the meantime.")
            try:
                connection.execute(
                    "INSERT INTO user VALUES (?, ?, ?, 0, ?, '', '')", (name, phc, int(role), self._now_s())
                )
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

    def _sessions(self, now_s: float, which: str, **values: str) -> list[Session]:
        bounds = {"idle": now_s - IDLE_S, "absolute": now_s - ABSOLUTE_S, "soon": now_s + _SEEN_EVERY_S}
        with self._lock:
            rows = self._connection.execute(
                f"SELECT {_COLUMNS}, token_sha256, created_s, seen_s, address, agent"
                " FROM session JOIN user ON user = name WHERE NOT is_disabled AND seen_s > :idle"
                # A clock that was set back must not make a session live longer.
                f" AND created_s > :absolute AND created_s <= :soon AND seen_s <= :soon AND {_COUNTS} {which}",
                {**bounds, **self._who(), **values},
            ).fetchall()
        return [Session(row[5], _user(row[:5]), *row[6:]) for row in rows]

    def _who(self) -> dict[str, str | int]:
        return {"issuer": self._issuer, "has_local": int(self._has_local)}

    def _refuse_of_provider(self, name: str) -> None:
        if any(user.name == name and user.issuer for user in self.users()):
            raise UsersError(f"{name} logs in by OIDC: the provider has the password, and its claims decide the role.")

    def _refuse_weak(self, password: str) -> None:
        if problem := password_problem(password):
            raise UsersError(problem)

    def _refuse_without_admin(self, connection: sqlite3.Connection) -> None:
        admins = f"SELECT 1 FROM user WHERE role = {int(Role.ADMIN)} AND NOT is_disabled AND {_COUNTS}"
        if not connection.execute(admins, self._who()).fetchone():
            raise UsersError("There would be no admin left. Make somebody else an admin first.")

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


def has_users(folder: Path, issuer: str, *, has_local: bool) -> bool:
    """Whether somebody may log in. Makes no folder. Raises UsageError."""
    if not (folder / FILE_OF_USERS).exists():
        return False
    users = users_in(folder, issuer, has_local=has_local)
    try:
        return not users.is_empty()
    finally:
        users.close()


def users_in(folder: Path, issuer: str, *, has_local: bool) -> Users:
    """Open the users of a data folder, which is made if it is missing. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Users(folder / FILE_OF_USERS, issuer=issuer, has_local=has_local)
    except OSError as error:
        raise UsageError(f"{folder}: cannot keep users there: {error.strerror or error}") from None


def _opened(path: Path) -> sqlite3.Connection:
    try:
        # Before SQLite makes the file with what the process's mask allows.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
        connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")
        version = _upgraded(connection)
    except (OSError, sqlite3.Error) as error:
        raise UsersError(f"{path}: cannot be used as the file of users: {error}") from error
    if version != _SCHEMA_VERSION:
        connection.close()
        raise UsersError(f"{path}: a newer version of Highwater has written this file of users")
    return connection


def _upgraded(connection: sqlite3.Connection) -> int:
    """Return the version of the schema, after an old one was brought to ours; a newer one is left as it is."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        scripts = (_SCHEMA, _FROM_1_TO_2, _FROM_2_TO_3)[version:]
        # One by one: `executescript` would end the transaction.
        for statement in ";".join(scripts).split(";"):
            connection.execute(statement)
        if scripts:
            connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
            version = _SCHEMA_VERSION
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return int(version)


def _user(row: tuple[str, int, int, float, str]) -> User:
    name, role, is_disabled, changed_s, issuer, *_ = row
    return User(name, Role(role), bool(is_disabled), changed_s, issuer)


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
