"""TAB in real shells, on a terminal: commands, options, values and files of both console commands are completed."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from highwater.common.completion import SCRIPTS, Shell
from tests.waiting import wait_until

BIN: Final = Path(sys.executable).parent
_LINES: Final = {"_HIGHWATER_COMPLETE": "complete_lines"}
# What each shell reads first, with a key that writes the line into the file `line`.
_KEY: Final = b"\x18\x04"
_START: Final = {
    Shell.BASH: (
        ("bash", "--norc", "--noprofile", "-i"),
        'source {script}; bind -x \'"\\C-x\\C-d": printf %s. "$READLINE_LINE" > line\'; : > .started',
    ),
    Shell.ZSH: (
        ("zsh", "-f", "-i"),
        (
            "fpath=({folder} $fpath); autoload -Uz compinit; compinit -D -u; "
            "write() {{ print -rn -- $BUFFER. > line }}; zle -N write; bindkey '^X^D' write; : > .started"
        ),
    ),
    Shell.FISH: (
        ("fish", "--no-config", "-i"),
        "source {script}; bind \\cx\\cd 'echo -n (commandline). > line'; : > .started",
    ),
}


@contextmanager
def terminal(shell: Shell, folder: Path) -> Iterator[int]:
    """The shell with its script on a terminal; what is written to the descriptor is typed."""
    command, setup = _START[shell]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {shell} here: apt-get install -y {shell}")
    script = folder / "_highwater"
    script.write_text(SCRIPTS[shell], "utf-8")
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    keys, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, b"\x28\x00\xa0\x00\x00\x00\x00\x00")
    process = subprocess.Popen(
        ["setsid", "--ctty", *command], cwd=folder, env=environment, stdin=inside, stdout=inside, stderr=inside
    )
    os.close(inside)
    shown: list[bytes] = []
    reader = threading.Thread(target=_read_all, args=(keys, shown))
    reader.start()
    try:
        # Before its prompt a shell may drop what is typed.
        wait_until(lambda: {*b"#$%>"} & {*b"".join(shown)}, f"a prompt of {shell}")
        os.write(keys, f"{setup.format(script=script, folder=folder)}\r".encode())
        wait_until((folder / ".started").exists, f"the start of {shell}")
        _wait_for_the_line_editor(keys, folder / "line", shell)
        yield keys
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()
        os.close(keys)


def _wait_for_the_line_editor(keys: int, line: Path, shell: Shell) -> None:
    """Until the shell has written the word that was typed last: between a command and a prompt it may drop keys."""
    typed, next_at_s = 0, 0.0

    def has_word() -> bool:
        nonlocal typed, next_at_s
        if line.is_file() and line.read_text("utf-8") == f"{typed}.":
            return True
        if time.monotonic() > next_at_s:
            typed, next_at_s = typed + 1, time.monotonic() + 2
            os.write(keys, f"\x15{typed}".encode() + _KEY)
        return False

    wait_until(has_word, f"the line editor of {shell}")
    line.unlink()
    os.write(keys, b"\x15")


def _read_all(keys: int, shown: list[bytes]) -> None:
    with suppress(OSError):  # the terminal ends with its last process
        while piece := os.read(keys, 65536):
            shown.append(piece)


@pytest.mark.parametrize("shell", Shell)
def test_tab_completes_commands_options_values_and_files(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "folder of mine").mkdir()
    (tmp_path / "wanted.yaml").touch()
    with terminal(shell, tmp_path) as keys:
        line = tmp_path / "line"
        for typed, completed in (
            ("highwater comple", "highwater completion"),
            ("highwater broker sta", "highwater broker start"),
            ("highwater-kafka broker start --log-d", "highwater-kafka broker start --log-dir"),
            (f"{BIN}/highwater broker topics --boots", f"{BIN}/highwater broker topics --bootstrap-server"),
            ("highwater completion z", "highwater completion zsh"),
            ("highwater bench run --launcher sp", "highwater bench run --launcher spark"),
            ("highwater bench run --launcher=sp", "highwater bench run --launcher=spark"),
            ("highwater bench run want", "highwater bench run wanted.yaml"),
            ("highwater broker start --log-dir fold", "highwater broker start --log-dir folder\\ of\\ mine/"),
            ("highwater no-such-command --la", "highwater no-such-command --la"),
        ):
            os.write(keys, f"{typed}\t".encode() + _KEY)
            wait_until(lambda: line.is_file() and line.read_text("utf-8").endswith("."), f"{shell}: {typed}")
            assert line.read_text("utf-8")[:-1].rstrip() == completed
            line.unlink()
            os.write(keys, b"\x15")


def answers(*words: str) -> dict[str, str]:
    done = subprocess.run(
        [BIN / "highwater"],
        env={**os.environ, **_LINES, "_HIGHWATER_WORDS": "".join(f"{word}\n" for word in words)},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(line.split("\t") for line in done.stdout.splitlines() if line)


def test_each_answer_has_its_help() -> None:
    assert answers("broker", "start", "--log-di") == {
        "--log-dir": "Directory of the log; created if missing. Also: log.dirs."
    }
    assert answers("tune", "")["apply"]
