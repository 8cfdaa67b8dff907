"""The playbooks as the Ansible collection highwater.kafka: built by ansible-galaxy, tested from the file alone."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import yaml

from highwater.common.errors import UsageError
from tools.release.archives import rewrite_tar
from tools.release.building import ROOT, Build, run
from tools.release.collection_tree import NAME, NAMESPACE, PREFIX, SOURCE, lay_out
from tools.release.places import LocalPython, Place

_FILES: Final = "FILES.json"
_MANIFEST: Final = "MANIFEST.json"
# What the pinned ansible-core is for, of what the collection's modules run with.
_PYTHONS: Final = ("3.11", "3.12", "3.13")
# The collection's inventory of the machine that Ansible runs on.
_LOCAL: Final = ("-i", "../local/hosts.yml")


def collection(build: Build) -> list[Path]:
    top = lay_out(build.source, build.scratch / "collection/ansible_collections")
    galaxy = (sys.executable, "-m", "ansible", "galaxy", "collection", "build")
    build.run(*galaxy, top, "--output-path", build.out, ANSIBLE_HOME=str(build.scratch / "ansible"))
    (path,) = build.out.glob(f"{NAMESPACE}-{NAME}-*.tar.gz")
    rewrite_tar(path, build.epoch_s, sorted_list)
    return [path]


def try_collection(artefact: Path, chosen: tuple[Place, ...]) -> list[str]:
    """With the pinned Ansible in each Python that it takes; where there are several, also with the oldest in the first.

    The first also builds what hosts get.
    """
    pythons = [place for place in chosen if isinstance(place, LocalPython) and place.version in _PYTHONS]
    pinned, oldest = ansible_versions()
    tries = [(place, pinned) for place in pythons] + [(place, oldest) for place in pythons[:1] if len(pythons) > 1]
    return [_try_out(artefact, *each, builds=not number) for number, each in enumerate(tries)]


def _try_out(artefact: Path, place: LocalPython, ansible: str, *, builds: bool) -> str:
    """Install it, load all of it, run what needs no other host. Raises UsageError."""
    with TemporaryDirectory(prefix="highwater-tried-") as name:
        tried = Tried(Path(name), artefact, place.program)
        try:
            return f"{place.words}: {tried.out(ansible)}{tried.release() if builds else ''}"
        except UsageError as error:
            raise UsageError(f"{artefact.name} with ansible-core {ansible} on {place.words}: {error}") from None


class Tried:
    """An environment with Ansible and this collection, and nothing else."""

    def __init__(self, place: Path, artefact: Path, python: str) -> None:
        self._place, self._artefact, self._python = place, artefact, python
        self._top = place / "collections/ansible_collections" / NAMESPACE / NAME

    def out(self, ansible: str) -> str:
        started_s = time.monotonic()
        run(self._place, self._python, "-m", "venv", self._place / "environment")
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(self._place, self._place / "environment/bin/python", *pip, f"ansible-core=={ansible}")
        self._run("galaxy", "collection", "install", self._artefact, "-p", self._place / "collections")
        # First, as Python writes what it compiled beside what it imports.
        self._run("galaxy", "collection", "verify", "--offline", PREFIX[:-1])
        modules, roles = (self._listed(kind) for kind in ("module", "role"))
        playbooks = sorted(f"{PREFIX}{path.stem}" for path in (self._top / "playbooks").glob("*.yml"))
        self._run("playbook", "-i", "hosts.yml", "--syntax-check", *playbooks)
        self._run("playbook", *_LOCAL, "--check", "-e", "ansible_become=false", f"{PREFIX}tune")
        answered_s = time.monotonic() - started_s
        version = self._run("playbook", "--version").split("]")[0].rpartition(" ")[2]
        return (
            f"ansible-core {version}: {modules} modules, {roles} roles and {len(playbooks)} playbooks load; "
            f"tune --check after {answered_s:.0f} s"
        )

    def release(self) -> str:
        """Build the wheels for a host like this machine, and return what they are. Raises UsageError."""
        arguments = {
            "source": str(self._top / SOURCE),
            "cache": str(self._place / "cache"),
            "python_version": ".".join(platform.python_version_tuple()[:2]),
            "machine": platform.machine(),
        }
        call = ("-m", f"{PREFIX}highwater_wheelhouse", "-a", json.dumps(arguments))
        # YAML with our settings, and JSON is YAML too.
        answer = yaml.safe_load(self._run("adhoc", "localhost", *_LOCAL, *call).partition("=>")[2])
        return f"; built release {answer['name']} for hosts, of {len(answer['wheels'])} wheels"

    def _listed(self, kind: str) -> int:
        return len(json.loads(self._run("doc", "-t", kind, "-l", "-j", PREFIX[:-1])))

    def _run(self, program: str, *arguments: str | Path) -> str:
        """A program of Ansible's, beside the settings that the collection brings for inventories."""
        inventory = self._top / "inventories/example"
        return run(
            inventory if inventory.is_dir() else self._place,
            *(self._place / "environment/bin/python", "-m", "ansible", program, *arguments),
            ANSIBLE_COLLECTIONS_PATH=str(self._place / "collections"),
            ANSIBLE_HOME=str(self._place / "home"),
            ANSIBLE_NOCOLOR="1",
            PATH=f"{self._place}/environment/bin:{os.environ['PATH']}",
        )


def ansible_versions() -> tuple[str, str]:
    """The one of constraints.txt, and pip's words for the oldest line that the extra `provision` takes."""
    (pinned,) = re.findall(r"^ansible-core==(\S+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (oldest,) = re.findall(r"ansible-core>=(\S+?),", " ".join(project["optional-dependencies"]["provision"]))
    return pinned, f"{oldest}.*"


def sorted_list(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """ansible-galaxy lists files in the order in which the file system has them."""
    listed = json.loads(files[_FILES])
    listed["files"].sort(key=lambda entry: entry["name"])
    content = json.dumps(listed, indent=1).encode()
    manifest = json.loads(files[_MANIFEST])
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(content).hexdigest()
    return {_FILES: content, _MANIFEST: json.dumps(manifest, indent=1).encode()}
