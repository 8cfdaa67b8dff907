"""Renders changes as a POSIX shell script, for review before a run or for a host without Python.

The script does what `tuning.engine` would do: it stops before its first change if anything has changed since it was
written, saves the old texts, reads back every write, and can undo changes that nobody else modified since.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .resources import remount_options
from .steps import CommandStep, FileStep, Resource, ResourceState, Step

SAVED: Final = "/var/lib/highwater/tuning/by-script"
"""The folder in which a script saves the old texts, below its root."""

_LITERAL_TEXTS: Final = "# shellcheck disable=SC2016\n"
_FUNCTIONS: Final = r"""
set -eu
umask 022
root=${HIGHWATER_ROOT:-}
saved=$root@SAVED@
changing=no

fail() {
  printf 'error: %s\n' "$1" >&2
  exit "${2:-2}"
}

at_exit() {
  status=$?
  if [ "$status" -ne 0 ] && [ "$changing" = yes ]; then
    printf 'error: stopped part-way; to undo the changes: sh %s undo\n' "$0" >&2
    exit 3
  fi
}

# The value of a setting on one line; of a list of choices the chosen one.
setting_now() {
  text=$(tr -s '[:space:]' ' ' <"$root$1") || return 1
  text=${text# }
  text=${text% }
  case $text in
    *\[*\]*)
      text=${text#*\[}
      text=${text%%\]*}
      ;;
  esac
  printf '%s' "$text"
}

expect_setting() {
  now=$(setting_now "$1") || fail "$1 cannot be read; nothing was changed"
  [ "$now" = "$2" ] || fail "$1 is '$now', and was '$2' when this script was written; nothing was changed"
}

# Command substitution drops the last line ends; the dot keeps them.
file_is() {
  [ -f "$root$1" ] && [ "$(cat "$root$1" && echo .)" = "$2." ]
}

expect_file() {
  file_is "$1" "$2" || fail "$1 is not as it was when this script was written; nothing was changed"
}

expect_no_file() {
  [ ! -e "$root$1" ] || fail "$1 was not there when this script was written; nothing was changed"
}

keep() {
  [ -e "$root$1" ] || return 0
  mkdir -p "$saved${1%/*}"
  [ -e "$saved$1" ] || cat "$root$1" >"$saved$1"
}

write_setting() {
  keep "$1"
  printf '%s\n' "$2" >"$root$1" || fail "$1: the kernel refuses '$2'" 3
  now=$(setting_now "$1")
  [ "$now" = "$2" ] || fail "$1: the write of '$2' had no effect, it reads '$now'" 3
  printf '%s: %s\n' "$1" "$2"
}

write_file() {
  keep "$1"
  new=$root$1.highwater-new
  if [ -e "$root$1" ]; then
    cp -p "$root$1" "$new"
  else
    [ -d "$root${1%/*}" ] || made_folder "${1%/*}"
    : >"$new"
    chmod "$2" "$new"
  fi
  printf '%s' "$3" >"$new"
  mv "$new" "$root$1"
  printf 'wrote %s\n' "$1"
}

made_folder() {
  mkdir -p "$root$1" "$saved"
  printf '%s\n' "$1" >>"$saved/folders"
}

remove_file() {
  keep "$1"
  rm "$root$1"
  printf 'removed %s\n' "$1"
}

# Commands need the running system; they are not run for a tree below another root.
on_host() {
  if [ -n "$root" ]; then
    printf 'not run below %s: %s\n' "$root" "$*"
  else
    "$@"
  fi
}

restore_setting() {
  now=$(setting_now "$1") || now=
  if [ "$now" = "$2" ]; then
    write_setting "$3" "$4"
  else
    printf 'left alone, as somebody changed it since: %s is %s\n' "$1" "$now"
  fi
}

restore_file() {
  if file_is "$1" "$2"; then
    write_file "$1" 644 "$3"
  else
    printf 'left alone, as somebody changed it since: %s\n' "$1"
  fi
}

take_file_away() {
  if file_is "$1" "$2"; then
    rm "$root$1"
    printf 'removed %s\n' "$1"
  else
    printf 'left alone, as somebody changed it since: %s\n' "$1"
  fi
}

put_file_back() {
  if [ -e "$root$1" ]; then
    printf 'left alone, as somebody made it since: %s\n' "$1"
  else
    write_file "$1" "$2" "$3"
  fi
}

forget() {
  if [ -f "$saved/folders" ]; then
    while IFS= read -r folder; do rmdir "$root$folder" 2>/dev/null || :; done <"$saved/folders"
  fi
  rm -rf "$saved"
}
"""

_MAIN: Final = """\
case ${1:-} in
  '')
    [ -n "$root" ] || [ "$(id -u)" -eq 0 ] || fail 'this needs root; nothing was changed'
    [ ! -d "$saved" ] || fail "a script has been run here before ($saved); undo it first: sh $0 undo"
    check
    trap at_exit EXIT
    changing=yes
    mkdir -p "$saved"
    change
    ;;
  undo)
    [ -d "$saved" ] || fail 'there is nothing to undo; nothing was changed'
    trap at_exit EXIT
    changing=yes
    undo
    forget
    ;;
  *) fail "usage: sh $0 [undo]" ;;
esac
"""


@dataclass(frozen=True)
class StateChange:
    """A resource with its state before and after the change; `mode` is for a file that is created."""

    resource: Resource
    before: ResourceState
    after: ResourceState
    mode: int = 0o644


def state_changes_of(steps: Sequence[Step]) -> tuple[StateChange, ...]:
    """The state changes of a plan's steps; commands are left out."""
    return tuple(
        StateChange(step.resource, *step.states, step.mode if isinstance(step, FileStep) else 0o644)
        for step in steps
        if not isinstance(step, CommandStep)
    )


def commands_of(steps: Sequence[Step]) -> tuple[CommandStep, ...]:
    return tuple(step for step in steps if isinstance(step, CommandStep))


def render_script(
    purpose: Sequence[str], moves: Sequence[StateChange], commands: Sequence[CommandStep], mounts: Mapping[str, str]
) -> str:
    """The script. `purpose`: lines for its header; `mounts`: the source of every mount point that is remounted."""
    head = "".join(f"# {line}".rstrip() + "\n" for line in purpose)
    parts = [
        _function("check", [line for move in moves for line in _check(move)]),
        _function("change", [*(line for move in moves for line in _change(move, mounts)), *_commands(commands)]),
        _function("undo", [*(line for move in reversed(moves) for line in _undo(move, mounts)), *_undone(commands)]),
    ]
    functions = _FUNCTIONS.replace("@SAVED@", SAVED)
    return f"#!/bin/sh\n{head}{_LITERAL_TEXTS}{functions}\n{''.join(parts)}{_MAIN}"


def _function(name: str, lines: Sequence[str]) -> str:
    body = "".join(f"  {line}\n" for line in lines or [":"])
    return f"{name}() {{\n{body}}}\n\n"


def _call(*words: str) -> str:
    return shlex.join(words)


def _check(move: StateChange) -> Iterator[str]:
    kind = move.resource.kind
    if kind == "setting":
        for path, text in (move.before or {}).items():
            yield _call("expect_setting", path, text)
    elif kind == "file":
        (path,) = move.resource.names
        yield _call("expect_file", path, move.before["text"]) if move.before else _call("expect_no_file", path)


def _change(move: StateChange, mounts: Mapping[str, str]) -> Iterator[str]:
    kind, (name, *_) = move.resource.kind, move.resource.names
    if kind == "setting":
        yield _call("write_setting", *_written(move.after))
    elif kind == "file":
        if move.after:
            yield _call("write_file", name, _mode(move.after, move.mode), move.after["text"])
        else:
            yield _call("remove_file", name)
    elif kind == "mount":
        yield _remount(name, move.before, move.after, mounts)
    elif kind == "swap":
        yield _swap(name, move.after)


def _undo(move: StateChange, mounts: Mapping[str, str]) -> Iterator[str]:
    kind, (name, *_) = move.resource.kind, move.resource.names
    if kind == "setting":
        yield _call("restore_setting", *_written(move.after), *_written(move.before))
    elif kind == "file":
        if move.before and move.after:
            yield _call("restore_file", name, move.after["text"], move.before["text"])
        elif move.after:
            yield _call("take_file_away", name, move.after["text"])
        elif move.before:
            yield _call("put_file_back", name, _mode(move.before, move.mode), move.before["text"])
    elif kind == "mount":
        yield _remount(name, move.after, move.before, mounts)
    elif kind == "swap":
        yield _swap(name, move.before)


def _written(state: ResourceState) -> tuple[str, str]:
    """The setting to write: of a pair the member that is not 0, as the kernel sets the other one to 0."""
    assert state
    return next(((path, text) for path, text in state.items() if text != "0"), next(iter(state.items())))


def _mode(state: ResourceState, otherwise: int) -> str:
    return (state or {}).get("mode") or f"{otherwise:o}"


def _remount(mount_point: str, now: ResourceState, wanted: ResourceState, mounts: Mapping[str, str]) -> str:
    present, options = ((state or {}).get("options", "").split(",") for state in (now, wanted))
    source = mounts.get(mount_point)
    words = ",".join(["remount", *remount_options(present, options)])
    return _call("on_host", "mount", "-o", words, *([source] if source else []), mount_point)


def _swap(device: str, state: ResourceState) -> str:
    if state is None or state.get("in_use") != "yes":
        return _call("on_host", "swapoff", device)
    priority = state.get("priority", "-1")
    # Negative priorities cannot be requested; the kernel assigns them itself.
    return _call("on_host", "swapon", *([] if priority.startswith("-") else ["-p", priority]), device)


def _commands(commands: Sequence[CommandStep]) -> list[str]:
    return [_call("on_host", *step.argv) for step in commands]


def _undone(commands: Sequence[CommandStep]) -> list[str]:
    return [_call("on_host", *step.undo_argv) for step in commands if step.undo_argv]
