"""Wrong uses of `highwater pipeline drill`: one line that names the mistake, exit status 2, and nothing started."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.pipeline.cli import app

RUNNER = CliRunner()


def drill(*arguments: str, **environment: str) -> tuple[int, str]:
    done = RUNNER.invoke(app, ["drill", *arguments], env=environment)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sink", "sqlit"], "--sink sqlit is neither one of sqlite, postgresql"),
        (["--sink", "sqlit"], "did you mean sqlite?"),
        (["--sink", "postgresql"], "--sink postgresql needs --database URL"),
        (
            ["--sink", "postgresql", "--database", "mysql://a@b/c"],
            "does not fit a database URL that begins with mysql:",
        ),
        (["--sink", "sqlite", "--points", "sink-comitted"], "did you mean sink-committed?"),
        (["--sink", "sqlite", "--victims", "jvn"], "did you mean jvm?"),
        (["--sink", "sqlite", "--without", "fencing"], "the safeguards of sqlite are marker, row-lock, first-offsets"),
        (["--sink", "sqlite", "--query", "not/there.py"], "not/there.py is not a Python file"),
        (["--sink", "not/there.py"], "not/there.py is not a Python file"),
        (["--sink", __file__], "has no function write and no function read"),
        (["--sink", "sqlite", "--query", __file__], "has no function transform"),
        (["--sink", "sqlite", "--command-config", "a"], "--command-config needs --bootstrap-servers"),
        (["--sink", "sqlite", "--bootstrap-servers", "a:1", "--command-config", "not/there"], "cannot be read"),
    ],
)
def test_a_mistake_has_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, output = drill(*arguments, "--out", str(out))
    assert status == 2
    assert message in output
    assert len(output.splitlines()) == 1
    assert not out.exists()


def test_a_password_is_not_shown() -> None:
    status, output = drill("--sink", "sqlite", HIGHWATER_DATABASE="postgresql://me:secret@host/db")
    assert status == 2
    assert "secret" not in output
