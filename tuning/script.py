"""Renders changes as a POSIX shell script, for review before a run or for a host without Python.

The script does what `tuning.engine` would do: it stops before its first change if anything has changed since it was
written, saves the old texts, reads back every write, and can undo changes that nobody else modified since. What
`engine.check` refuses is never rendered.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .boot_files import fstab
from .journal import FOLDER, SESSION
from .resources import remount_command
from .steps import MOUNT_LAYERS, CommandStep, FileStep, Resource, ResourceState, Step

SAVED: Final = f"{FOLDER}/by-script"
"""The folder in which a script saves the old texts, below its root."""

_LITERAL_TEXTS: Final = "# shellcheck disable=SC2016\n"
_FUNCTIONS: Final = r"""
set -eu
umask 022
# Texts of files are bytes, in whatever encoding.
LC_ALL=C
export LC_ALL
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

# A link would be replaced by a file; a file with several names would lose the others.
is_plain() {
  [ -n "$(find "$root$1" -prune -type f -links 1 2>/dev/null)" ]
}

is_nowhere() {
  [ ! -e "$root$1" ] && [ ! -h "$root$1" ]
}

# Command substitution drops the last line ends; the dot keeps them.
file_is() {
  is_plain "$1" && [ "$(cat "$root$1" && echo .)" = "$2." ]
}

expect_file() {
  file_is "$1" "$2" || fail "$1 is not as it was when this script was written; nothing was changed"
}

expect_no_file() {
  is_nowhere "$1" || fail "$1 was not there when this script was written; nothing was changed"
}

# The options of one layer of a mount, as mountinfo has them: of the mount itself, or of its superblock.
options_of() {
  found=
  while read -r _ _ _ _ place of_mount rest; do
    if [ "$place" = "$2" ]; then
      found=$of_mount
      [ "$1" = mount ] || found=${rest##* }
    fi
  done <"$root/proc/self/mountinfo"
  printf '%s' "$found"
}

# Whether two lists of options are the same set.
same_options() {
  [ "$(printf '%s' "$1" | tr ',' '\n' | sort)" = "$(printf '%s' "$2" | tr ',' '\n' | sort)" ]
}

expect_options() {
  now=$(options_of "$1" "$2")
  same_options "$now" "$3" || fail "$1 $2 is '$now', and was '$3' when this script was written; nothing was changed"
}

is_swap() {
  while read -r device _; do
    if [ "$device" = "$1" ]; then return 0; fi
  done <"$root/proc/swaps"
  return 1
}

expect_swap() {
  is_swap "$1" || fail "$1 was swap when this script was written, and is not now; nothing was changed"
}

# What swap holds has to fit into half of the available memory.
expect_room() {
  held=0 available=0
  while read -r device _ _ used _; do
    for leaving; do
      if [ "$device" = "$leaving" ]; then held=$((held + used)); fi
    done
  done <"$root/proc/swaps"
  while read -r key size _; do
    if [ "$key" = MemAvailable: ]; then available=$size; fi
  done <"$root/proc/meminfo"
  [ "$held" -le $((available / 2)) ] || fail "swap holds $held KiB, and $available KiB of memory are available; stop \
something first; nothing was changed"
}

expect_no_session() {
  is_nowhere '@SESSION@' || fail "a benchmark has, or left, a host profile in force; wait for its end, or undo it \
with highwater tune rollback; nothing was changed"
}

# Errors that findmnt finds in a text of fstab.
errors_in() {
  printf '%s' "$1" | timeout -k 1 20 findmnt --verify --tab-file /dev/stdin 2>&1 |
    grep -c -e '\[E\]' -e 'parse error at' || :
}

expect_sound_fstab() {
  [ -z "$root" ] || return 0
  command -v findmnt >/dev/null || return 0
  [ "$(errors_in "$2")" -le "$(errors_in "$1")" ] || fail "/etc/fstab would get an error that findmnt --verify finds; \
nothing was changed"
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

remount() {
  layer=$1 place=$2 wanted=$3
  shift 3
  on_host "$@"
  now=$(options_of "$layer" "$place")
  [ -n "$root" ] || same_options "$now" "$wanted" || fail "$layer $place is '$now' after a remount for '$wanted'" 3
}

restore_options() {
  now=$(options_of "$1" "$2")
  if [ -n "$root" ] || same_options "$now" "$3"; then
    layer=$1 place=$2
    shift 3
    remount "$layer" "$place" "$@"
  else
    printf 'left alone, as somebody changed it since: %s %s is %s\n' "$1" "$2" "$now"
  fi
}

restore_swap() {
  device=$1
  shift
  if [ -n "$root" ] || ! is_swap "$device"; then
    on_host "$@"
  else
    printf 'left alone, as somebody turned it on since: %s\n' "$device"
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
  if is_nowhere "$1"; then
    write_file "$1" "$2" "$3"
  else
    printf 'left alone, as somebody made it since: %s\n' "$1"
  fi
}

forget() {
  if [ -f "$saved/folders" ]; then
    while IFS= read -r folder; do rmdir "$root$folder" 2>/dev/null || :; done <"$saved/folders"
  fi
  rm -rf "$saved"
  rmdir "${saved%/*}" 2>/dev/null || :
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
    purpose: Sequence[str],
    moves: Sequence[StateChange],
    commands: Sequence[CommandStep],
    mounts: Mapping[str, str],
    *,
    beside_session: bool = False,
) -> str:
    """The script. `purpose`: lines for its header; `mounts`: the source of every mount point that is remounted.

    beside_session: it may run although a benchmark left a host profile in force, because it undoes that too.
    """
    head = "".join(f"# {line}".rstrip() + "\n" for line in purpose)
    guards = [] if beside_session else ["expect_no_session"]
    leaving = [_in_table(move.resource.names[0]) for move in moves if _leaves_swap(move)]
    if leaving:
        guards.append(_call("expect_room", *leaving))
    parts = [
        _function("check", [*guards, *(line for move in moves for line in _check(move))]),
        _function("change", [*(line for move in moves for line in _change(move, mounts)), *_commands(commands)]),
        _function("undo", [*(line for move in reversed(moves) for line in _undo(move, mounts)), *_undone(commands)]),
    ]
    functions = _FUNCTIONS.replace("@SAVED@", SAVED).replace("@SESSION@", SESSION)
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
        if path == fstab.PATH and move.before and move.after:
            yield _call("expect_sound_fstab", move.before["text"], move.after["text"])
    elif kind in MOUNT_LAYERS:
        yield _call("expect_options", kind, _in_table(move.resource.names[0]), _options(move.before))
    elif _leaves_swap(move):
        yield _call("expect_swap", _in_table(move.resource.names[0]))


def _change(move: StateChange, mounts: Mapping[str, str]) -> Iterator[str]:
    kind, (name, *_) = move.resource.kind, move.resource.names
    if kind == "setting":
        yield _call("write_setting", *_written(move.after))
    elif kind == "file":
        if move.after:
            yield _call("write_file", name, _mode(move.after, move.mode), move.after["text"])
        else:
            yield _call("remove_file", name)
    elif kind in MOUNT_LAYERS:
        yield _call("remount", *_remount(move.resource, move.before, move.after, mounts))
    elif kind == "swap":
        yield _call("on_host", *_swap(name, move.after))


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
    elif kind in MOUNT_LAYERS:
        place, *rest = _remount(move.resource, move.after, move.before, mounts)[1:]
        yield _call("restore_options", kind, place, _options(move.after), *rest)
    elif _leaves_swap(move):
        yield _call("restore_swap", _in_table(name), *_swap(name, move.before))
    else:
        yield _call("on_host", *_swap(name, move.before))


def _written(state: ResourceState) -> tuple[str, str]:
    """The setting to write: of a pair the member that is not 0, as the kernel sets the other one to 0."""
    assert state
    return next(((path, text) for path, text in state.items() if text != "0"), next(iter(state.items())))


def _mode(state: ResourceState, otherwise: int) -> str:
    return (state or {}).get("mode") or f"{otherwise:o}"


def _remount(
    resource: Resource, now: ResourceState, wanted: ResourceState, mounts: Mapping[str, str]
) -> tuple[str, ...]:
    """The words of `remount`: layer, place in mountinfo, options afterwards, command."""
    (mount_point,) = resource.names
    command = remount_command(resource, mounts[mount_point], now, wanted)
    return (resource.kind, _in_table(mount_point), _options(wanted), *command)


def _options(state: ResourceState) -> str:
    return (state or {}).get("options", "")


def _in_table(path: str) -> str:
    """A path as mountinfo and swaps have it (fs/seq_file.c)."""
    return "".join(f"\\{ord(character):03o}" if character in " \t\n\\" else character for character in path)


def _leaves_swap(move: StateChange) -> bool:
    return move.resource.kind == "swap" and (move.before or {}).get("in_use") == "yes"


def _swap(device: str, state: ResourceState) -> tuple[str, ...]:
    if state is None or state.get("in_use") != "yes":
        return ("swapoff", device)
    priority = state.get("priority", "-1")
    # Negative priorities cannot be requested; the kernel assigns them itself.
    return ("swapon", *([] if priority.startswith("-") else ["-p", priority]), device)


def _commands(commands: Sequence[CommandStep]) -> list[str]:
    return [_call("on_host", *step.argv) for step in commands]


def _undone(commands: Sequence[CommandStep]) -> list[str]:
    return [_call("on_host", *step.undo_argv) for step in commands if step.undo_argv]
