"""The collection highwater.kafka: laid out from the playbooks, with full names alone, and loaded by Ansible."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path, PurePosixPath

import pytest
import yaml

from tests.playbooks.modules import TREE
from tests.playbooks.modules import load as load_module
from tools.release.archives import rewrite_tar
from tools.release.collection import ansible_versions, sorted_list
from tools.release.collection_tree import Names, bare_names, lay_out, requires_ansible, rewritten

ROOT = Path(__file__).parents[2]
NAMES = Names.of(TREE)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(ROOT, tmp_path_factory.mktemp("collection") / "ansible_collections")


def texts(tree: Path) -> dict[str, str]:
    """Of the files that Ansible reads, by their places; what hosts are built from is none of them."""
    return {
        str(path.relative_to(tree)): path.read_text("utf-8")
        for folder in ("playbooks", "roles", "plugins", "inventories")
        for path in sorted((tree / folder).rglob("*"))
        if path.is_file() and path.suffix in (".yml", ".py", ".j2", ".md")
    }


def test_no_bare_name_of_ours_is_left(tree: Path) -> None:
    left = {place: found for place, text in texts(tree).items() if (found := bare_names(text, NAMES))}
    assert left == {}
    # And so that the patterns overlook none: names of modules and filters are nowhere but behind the collection's,
    # where they are defined, and where a variable has the name of a filter.
    word = re.compile(rf"(?<![\w.])(?:{'|'.join((NAMES.plugins | NAMES.filters) - {'highwater_address'})})\b")
    read = {place: uncommented(text) for place, text in texts(tree).items() if place.endswith((".yml", ".j2"))}
    assert {place for place, text in read.items() if word.search(text)} == set()


def uncommented(text: str) -> str:
    return re.sub(r"^\s*#.*", "", text, flags=re.M)


def test_roles_are_asked_for_by_full_names(tree: Path) -> None:
    asked = [
        name
        for text in texts(tree).values()
        for name in re.findall(r"(?:- role:|(?:include|import)_role:\n\s+name:) (\S+)", text)
    ]
    assert asked
    assert {name for name in asked if name.removeprefix("highwater.kafka.") not in NAMES.roles} == set()
    assert {name for name in asked if not name.startswith("highwater.kafka.")} == set()


def test_what_a_pattern_is_for() -> None:
    text = '- name: Look\n  highwater_keys:\n    name: "{{ highwater_address | highwater_in_url }}"\n'
    full = rewritten(text, PurePosixPath("roles/keys/tasks/main.yml"), NAMES)
    assert full == (
        "- name: Look\n  highwater.kafka.highwater_keys:\n"
        '    name: "{{ highwater_address | highwater.kafka.highwater_in_url }}"\n'
    )
    page = "[a](../keys/README.md), [b](../../../docs/x.md), [c](../../broker.yml)"
    assert rewritten(page, PurePosixPath("roles/broker/README.md"), NAMES) == (
        "[a](../keys/README.md), b, [c](../../playbooks/broker.yml)"
    )


def test_links_of_its_pages_lead_somewhere(tree: Path) -> None:
    broken = [
        (str(page.relative_to(tree)), target)
        for page in (tree / "README.md", *tree.glob("roles/*/README.md"))
        for target in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", page.read_text("utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def test_hosts_get_the_release_that_a_clone_makes(tree: Path) -> None:
    """So they can be changed from either, and nothing restarts."""
    name_of_tree = load_module("library/highwater_wheelhouse.py").name_of_tree
    assert name_of_tree(tree / "source", ["bench"]) == name_of_tree(ROOT, ["bench"])


def test_what_is_kept_on_hosts_has_the_same_names(tree: Path) -> None:
    """A ledger, a mark, an owner: else a host that a clone has set up would not be torn down from a collection."""
    for name in ("highwater_packages", "highwater_storage", "highwater_tune", "highwater_release"):
        ours, theirs = TREE / "library" / f"{name}.py", tree / "plugins/modules" / f"{name}.py"
        marks = [re.findall(r"^_?[A-Z_]+(?:: Final)? = .*", path.read_text("utf-8"), re.M) for path in (ours, theirs)]
        assert marks[0] == marks[1]


def test_ansible_versions_are_those_of_the_project(tree: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert requires_ansible(project) == ">=2.17.0,<2.20.0"
    runtime = yaml.safe_load((tree / "meta/runtime.yml").read_text("utf-8"))
    assert runtime == {"requires_ansible": requires_ansible(project)}
    galaxy = yaml.safe_load((tree / "galaxy.yml").read_text("utf-8"))
    assert (galaxy["namespace"], galaxy["name"], galaxy["version"]) == ("highwater", "kafka", project["version"])
    asked = next(each for each in project["optional-dependencies"]["provision"] if each.startswith("ansible-core"))
    for page in (tree / "README.md", ROOT / "docs/operations.md"):
        assert f"pip install '{asked}'" in page.read_text("utf-8")
    pinned, oldest = ansible_versions()
    assert pinned.startswith("2.19.")
    assert oldest == "2.17.*"


def test_playbooks_of_it_are_sound(tree: Path, tmp_path: Path) -> None:
    books = sorted(f"highwater.kafka.{path.stem}" for path in (tree / "playbooks").glob("*.yml"))
    done = ansible(tree, tmp_path, "playbook", "-i", "hosts.yml", "--syntax-check", *books)
    assert done.returncode == 0, done.stderr
    assert "[WARNING]" not in done.stderr, done.stderr


def test_another_ansible_is_refused_by_the_settings_of_an_inventory(tree: Path, tmp_path: Path) -> None:
    runtime = tree / "meta/runtime.yml"
    kept = runtime.read_text("utf-8")
    runtime.write_text("requires_ansible: '>=2.99.0'\n", "utf-8")
    done = ansible(tree, tmp_path, "playbook", "-i", "hosts.yml", "highwater.kafka.tune", "--syntax-check")
    runtime.write_text(kept, "utf-8")
    assert done.returncode != 0
    assert "does not support Ansible version" in done.stderr


def test_a_role_without_its_required_variable_says_which(tree: Path, tmp_path: Path) -> None:
    call = ("-m", "ansible.builtin.include_role", "-a", "name=highwater.kafka.packages")
    done = ansible(tree, tmp_path, "adhoc", "localhost", "-i", "../local/hosts.yml", *call)
    assert done.returncode != 0
    assert "missing required arguments: packages_names" in done.stdout + done.stderr


def ansible(tree: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ansible", *arguments],
        cwd=tree / "inventories/example",
        env={
            "ANSIBLE_COLLECTIONS_PATH": str(tree.parents[2]),
            "ANSIBLE_HOME": str(home),
            "ANSIBLE_NOCOLOR": "1",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_lists_of_files_are_sorted_and_links_kept(tmp_path: Path) -> None:
    (tmp_path / "FILES.json").write_text('{"files": [{"name": "b"}, {"name": "a"}], "format": 1}', "utf-8")
    (tmp_path / "MANIFEST.json").write_text('{"file_manifest_file": {"chksum_sha256": "old"}}', "utf-8")
    (tmp_path / "link").symlink_to("FILES.json")
    packed = tmp_path / "c.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        for name in ("link", "MANIFEST.json", "FILES.json"):
            archive.add(tmp_path / name, name)
    rewrite_tar(packed, 0, sorted_list)
    with tarfile.open(packed) as archive:
        assert archive.getmember("link").linkname == "FILES.json"
        files, manifest = (archive.extractfile(name) for name in ("FILES.json", "MANIFEST.json"))
        assert files is not None
        assert manifest is not None
        listed = yaml.safe_load(content := files.read())
        assert [entry["name"] for entry in listed["files"]] == ["a", "b"]
        listing = yaml.safe_load(manifest.read())["file_manifest_file"]
        assert listing["chksum_sha256"] == hashlib.sha256(content).hexdigest()
