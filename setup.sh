#!/usr/bin/env bash
# Makes .venv beside this file with what Highwater needs. `make` calls it; it is quick when nothing has changed.
#   ./setup.sh run    what a benchmark, a pipeline and the monitor need
#   ./setup.sh dev    that, and what lint and tests need
# Both let the broker run as machine code where there is a C compiler (docs/compiled.md). COMPILED=0 leaves that out, with
# COMPILED=1 it has to be.
set -euo pipefail
cd "$(dirname "$0")"

profile=${1:-run}
case $profile in
  run | dev) files=("requirements/$profile.txt") ;;
  *) echo "setup.sh: unknown profile '$profile': use run or dev" >&2; exit 2 ;;
esac

case ${COMPILED:-} in
  "" | 0 | 1) ;;
  *) echo "setup.sh: COMPILED is '$COMPILED': set 0 for Python, 1 for machine code alone, or nothing" >&2; exit 2 ;;
esac

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }

apt_install() {
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup.sh: missing: $*. Run this once, then try again:" >&2
    echo "    sudo apt-get install -y $*" >&2
    exit 2
  fi
  say "System packages: $*"
  DEBIAN_FRONTEND=noninteractive apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

# Python 3.11 or newer with venv; Debian has venv in a package of its own.
usable_python() {
  command -v "$1" >/dev/null 2>&1 &&
    "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# The file behind links, environments and pyenv's shims.
interpreter() { "$1" -c 'import os, sys; print(os.path.realpath(sys.executable))' 2>/dev/null; }

# Whether every user may run the file: a Python below /root serves root alone.
open_to_all() {
  local path=$1
  while (((8#$(stat -c %a "$path") & 1) == 1)); do
    if [ "$path" = / ]; then return; fi
    path=$(dirname "$path")
  done
  return 1
}

# Root prefers a Python that other users may run too, so that they can use this clone.
find_python() {
  local candidate private=
  for candidate in python3 python3.11 python3.12 python3.13 /usr/bin/python3; do
    if ! usable_python "$candidate"; then continue; fi
    if [ "$(id -u)" -ne 0 ] || open_to_all "$(interpreter "$candidate")"; then
      command -v "$candidate"
      return
    fi
    private=${private:-$(command -v "$candidate")}
  done
  echo "$private"
}

# Whether .venv can be used as it is: its Python may be gone, closed to this user, or another than PYTHON names.
venv_serves() {
  .venv/bin/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || return 1
  [ -z "${PYTHON:-}" ] || [ "$(interpreter "$PYTHON")" = "$(interpreter .venv/bin/python)" ]
}

# Spark needs Java 17 or newer; where there is none a runtime comes from PyPI.
java_is_new_enough() {
  local java=java major
  if [ -n "${JAVA_HOME:-}" ]; then java=$JAVA_HOME/bin/java; fi
  major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || return 1
  [ -n "$major" ] && [ "$major" -ge 17 ]
}

if [ -n "${PYTHON:-}" ] && ! usable_python "$PYTHON"; then
  echo "setup.sh: PYTHON=$PYTHON is not a Python 3.11 or newer with venv: name another, or unset PYTHON" >&2
  exit 2
fi
if venv_serves; then
  python=.venv/bin/python
else
  python=${PYTHON:-$(find_python)}
fi
if [ -z "$python" ]; then
  apt_install python3 python3-venv ca-certificates
  python=$(find_python)
  if [ -z "$python" ]; then
    echo "setup.sh: no Python 3.11 or newer with venv here; install one and name it: PYTHON=/path/to/python3 make ..." >&2
    exit 2
  fi
fi

if ! java_is_new_enough; then files+=(requirements/jdk.txt); fi

# A build of each state of the sources is kept, so that this is quick when there is one. Nothing fails without, unless
# COMPILED=1.
compile_broker() {
  local packages=
  if [ "${COMPILED:-}" = 0 ]; then return; fi
  if [ "$(id -u)" -eq 0 ]; then packages=$(.venv/bin/python -m tools.compile --packages); fi
  # shellcheck disable=SC2086  # names, of which there may be several
  if [ -n "$packages" ] && ! apt_install $packages; then echo "setup.sh: $packages could not be installed" >&2; fi
  .venv/bin/python -m tools.compile || [ "${COMPILED:-}" != 1 ] || exit 1
}

# The stamp says what is installed; a dev environment serves a run as well.
wanted="$("$python" --version) $(cat pyproject.toml requirements/*.txt setup.sh | sha256sum | cut -d' ' -f1)"
stamp=.venv/.highwater-setup
if [ "$python" = .venv/bin/python ]; then
  case $(cat "$stamp" 2>/dev/null || true) in
    "$wanted $profile" | "$wanted dev")
      # Whoever edits and tests would wait at every edit.
      if [ "$profile" = run ] || [ "${COMPILED:-}" = 1 ]; then compile_broker; fi
      exit 0
      ;;
  esac
fi

if [ -e .venv ]; then written=.venv; else written=.; fi
if ! [ -w "$written" ]; then
  echo "setup.sh: .venv has to be made or updated, and only $(stat -c %U "$written") may write in $PWD: clone Highwater into a directory of your own" >&2
  exit 2
fi

# Nothing fails without fio: a run then says that it could not probe its storage.
if ! command -v fio >/dev/null 2>&1; then
  if [ "$(id -u)" -eq 0 ]; then
    apt_install fio || echo "setup.sh: fio could not be installed; storage will not be probed" >&2
  else
    echo "setup.sh: without fio storage is not probed; to have it: sudo apt-get install -y fio" >&2
  fi
fi

# Tests that ask other programs are skipped without them, and say so.
if [ "$profile" = dev ]; then
  missing=()
  if ! command -v udevadm >/dev/null 2>&1; then missing+=(udev); fi
  if ! command -v mkfs.xfs >/dev/null 2>&1; then missing+=(xfsprogs); fi
  for program in zsh fish mandoc iperf3; do
    if ! command -v "$program" >/dev/null 2>&1; then missing+=("$program"); fi
  done
  if [ "${#missing[@]}" -gt 0 ]; then
    if [ "$(id -u)" -eq 0 ]; then
      apt_install "${missing[@]}" || echo "setup.sh: ${missing[*]} could not be installed; tests that ask them are skipped" >&2
    else
      echo "setup.sh: some tests are skipped; to have all: sudo apt-get install -y ${missing[*]}" >&2
    fi
  fi
fi

if [ "$python" != .venv/bin/python ]; then
  say "Python environment in .venv ($("$python" --version))"
  "$python" -m venv --clear .venv
fi

# Only files whose SHA-256 is pinned, among them the tools that build others. Says in one line which one is another.
output=$(mktemp)
trap 'rm -f "$output"' EXIT
pip_install() {
  if ! .venv/bin/python -m pip install --disable-pip-version-check --no-build-isolation "$@" 2>&1 | tee "$output" |
    sed -u '/^Requirement already satisfied/d'; then
    sed -n '/DO NOT MATCH THE HASHES/{n;s|^ *\(.*\):$|setup.sh: requirements/ pins another file than \1: nothing was installed; find out who changed it|p;}' "$output" >&2
    exit 1
  fi
}

say "Python packages of ${files[*]}: the first time about 0.6 GB to fetch (PySpark is most of it) and some minutes"
started=$SECONDS
pip_install --require-hashes -r requirements/tools.txt
pip_install --require-hashes "${files[@]/#/--requirement=}"
# The name until version 0.2 (highwater-kafka since); left beside the new one, it would take the command away when it goes.
if compgen -G '.venv/lib/python*/site-packages/highwater-*.dist-info' >/dev/null; then
  .venv/bin/python -m pip uninstall --disable-pip-version-check --quiet --yes highwater
fi
pip_install --no-deps --editable .
echo "$wanted $profile" > "$stamp"
# Whoever imports the tests first compiles them: one process now, beside the compiler, and not each of those that run them.
collecting=
if [ "$profile" = dev ]; then
  .venv/bin/python -m pytest --collect-only -qq >/dev/null 2>&1 &
  collecting=$!
fi
compile_broker
[ -z "$collecting" ] || wait "$collecting" || true
private=$(interpreter .venv/bin/python)
if [ "$(id -u)" -eq 0 ] && ! open_to_all "$private"; then
  echo "setup.sh: other users cannot use this clone, as they may not run $private; for them: apt-get install -y python3 python3-venv && PYTHON=/usr/bin/python3 ./setup.sh" >&2
fi
say "Set-up done in $((SECONDS - started)) s"
