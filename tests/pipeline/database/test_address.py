"""URLs of databases: what they mean, what is refused, and that no message has a password."""

from __future__ import annotations

import pytest

from highwater.pipeline.database.address import MYSQL, POSTGRESQL, SQLITE, read_address
from highwater.pipeline.database.dialects import dialect_of
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.resume import stored_progress


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:a.db", "a.db"),
        ("sqlite:/tmp/a.db", "/tmp/a.db"),
        ("sqlite:////tmp/a.db", "/tmp/a.db"),
        ("sqlite:///a.db", "a.db"),
    ],
)
def test_files(url: str, path: str) -> None:
    found = read_address(url)
    assert (found.kind, found.path) == (SQLITE, path)


def test_servers() -> None:
    found = read_address("mariadb://wri%40ter:p%3Ass@db.example:3307/results?ssl_ca=/ca.pem")
    assert (found.kind, found.host, found.port, found.user, found.password, found.database) == (
        MYSQL,
        "db.example",
        3307,
        "wri@ter",
        "p:ss",
        "results",
    )
    assert found.parameters == {"ssl_ca": "/ca.pem"}
    assert found.shown == "mysql://wri%40ter@db.example:3307/results"
    assert read_address("postgres:///results?host=/run/postgresql").kind == POSTGRESQL


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "a database has to be named: write sqlite:PATH, postgresql://"),
        ("results.db", "a database has to be named"),
        ("oracle://x", "'oracle' names no database"),
        ("postgre://u:secret@h/d", "'postgre' names no database: .*; did you mean postgres"),
        ("sqlite:", "names no file"),
        ("sqlite::memory:", "names no file"),
        ("postgresql:results", "lacks its two slashes"),
        ("mysql://u:sec/ret@h:3306/d", "cannot be read: .* with %40 for @"),
        ("mysql://u:/secret@h:3306/d", "cannot be read: .* %2F for / "),
        ("postgresql://u:12/secret@h/d", "cannot be read: .* %2F for / "),
        ("postgresql://u:12#secret@h/d", "cannot be read: .* %2F for / "),
        ("u:secret@h", "names no database"),
    ],
)
def test_what_is_refused(url: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence) as refused:
        read_address(url)
    assert "sec" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_password_is_shown_nowhere() -> None:
    found = read_address("postgresql://u:s%2Fcret@h/d?sslmode=disable")
    assert "cret" not in repr(found)
    assert "cret" not in found.shown
    assert found.hide("invalid: s/cret\nin s%2Fcret") == "invalid: ***"
    found = read_address("postgresql://u@h/d?sslpassword=cret&password=ret")
    assert found.password == "ret"  # noqa: S105
    assert "cret" not in repr(found)
    assert found.hide("invalid: cret") == "invalid: ***"


def test_a_parameter_that_is_not_there() -> None:
    with pytest.raises(SettingsError, match="ssl_caa is not a parameter of this URL; did you mean ssl_ca"):
        dialect_of(read_address("mysql://u@h/d?ssl_caa=x")).connect()


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(SettingsError, match="there is no such file"):
        stored_progress("sqlite:/nowhere/a.db", "sink")
    with pytest.raises(SettingsError, match="there is no folder /nowhere"):
        dialect_of(read_address("sqlite:/nowhere/a.db")).connect()
