"""The playbooks laid out as an Ansible collection: files in other places, names of ours with its name before them.

Beside plugins, roles and playbooks it has source/, the tree that releases for hosts are built from. So a release has
the same name as one that a clone of the same commit makes, and hosts can be changed from either.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import yaml

from tools.release.building import run

NAMESPACE: Final = "highwater"
NAME: Final = "kafka"
PREFIX: Final = f"{NAMESPACE}.{NAME}."
SOURCE: Final = "source"
# Folders of playbooks/ by their places in a collection. Where nothing is named, a file stays where it is.
_PLACES: Final = {
    "action_plugins": "plugins/action",
    "callback_plugins": "plugins/callback",
    "filter_plugins": "plugins/filter",
    "library": "plugins/modules",
    "module_utils": "plugins/module_utils",
}
_LEFT_OUT: Final = ("README.md", ".yamllint", ".ansible-lint", "ansible.cfg", "inventories/lab/")
# What is not committed yet too, so that tests of a working tree see it; a clean clone has none.
_SEEN: Final = ("--cached", "--others", "--exclude-standard")
# Beside what highwater_wheelhouse builds from.
_ALSO_IN_SOURCE: Final = ("workloads/",)
_REWRITTEN: Final = (".j2", ".md", ".py", ".yml")
# What ansible-test of this version leaves out, with reasons; another would call some of it unnecessary.
_TESTED_ANSIBLE: Final = "2.19"
_IGNORED: Final = Path(__file__).with_name("collection_sanity.txt")
_ABOUT: Final = Path(__file__).with_name("collection.md")


@dataclass(frozen=True, slots=True)
class Names:
    """What the playbooks call their own by bare names."""

    plugins: frozenset[str]
    filters: frozenset[str]
    roles: frozenset[str]
    utils: frozenset[str]

    @classmethod
    def of(cls, playbooks: Path) -> Names:
        files = [path for folder in ("library", "action_plugins") for path in (playbooks / folder).glob("*.py")]
        filters = [path.read_text("utf-8") for path in (playbooks / "filter_plugins").glob("*.py")]
        return cls(
            frozenset(path.stem for path in files),
            frozenset(name for text in filters for name in re.findall(r'"(highwater_\w+)": ', text)),
            frozenset(path.name for path in (playbooks / "roles").iterdir()),
            frozenset(path.stem for path in (playbooks / "module_utils").iterdir() if path.name != "__pycache__"),
        )


def lay_out(clone: Path, place: Path) -> Path:
    """Write the tree to place/highwater/kafka, where ansible-test wants it, and return that."""
    top = place / NAMESPACE / NAME
    names = Names.of(clone / "playbooks")
    for path in _tracked(clone, "playbooks"):
        inside = path.relative_to("playbooks").as_posix()
        if not inside.startswith(_LEFT_OUT):
            to = PurePosixPath(_placed(inside))
            _copy(clone / path, top / to)
            if path.suffix in _REWRITTEN:
                text = (top / to).read_text("utf-8")
                (top / to).write_text(rewritten(text, to, names), "utf-8")
    of_source = _of_source(clone)
    for path in _tracked(clone, "."):
        if path.as_posix().startswith(of_source):
            _copy(clone / path, top / SOURCE / path)
    # A clone has this link too, to another place.
    (top / "plugins/module_utils/highwater").unlink()
    _link(top / "plugins/module_utils/highwater", f"../../{SOURCE}/highwater")
    (top / "inventories/example/ansible.cfg").write_text(_settings(clone), "utf-8")
    project = tomllib.loads((clone / "pyproject.toml").read_text("utf-8"))["project"]
    _write_yaml(top / "galaxy.yml", _galaxy(project))
    (top / "meta").mkdir()
    _write_yaml(top / "meta/runtime.yml", {"requires_ansible": requires_ansible(project)})
    sanity = top / "tests/sanity"
    sanity.mkdir(parents=True)
    shutil.copy(_IGNORED, sanity / f"ignore-{_TESTED_ANSIBLE}.txt")
    (top / "README.md").write_text(_readme(clone, names), "utf-8")
    shutil.copy(clone / "LICENSE", top / "LICENSE")
    shutil.copy(clone / "CHANGELOG.md", top / "CHANGELOG.md")
    return top


def requires_ansible(project: dict[str, Any]) -> str:
    """What the extra `provision` takes; so there is one place for it."""
    extra = project["optional-dependencies"]["provision"]
    (wanted,) = (each for each in extra if each.startswith("ansible-core"))
    # Ansible compares three numbers.
    return re.sub(r"(\d+\.\d+)(?=,|$)", r"\1.0", wanted.removeprefix("ansible-core"))


def rewritten(text: str, place: PurePosixPath, names: Names) -> str:
    """With full names, in a file that is to be at a place of the collection."""
    for pattern, full in _patterns(names):
        text = re.sub(pattern, full, text, flags=re.M)
    if place.suffix == ".md":
        return _without_links_out(text, place)
    return text


def bare_names(text: str, names: Names) -> list[str]:
    """Each name of ours in a place where Ansible looks it up, without the collection before it."""
    return [match[0].strip() for pattern, _ in _patterns(names) for match in re.finditer(pattern, text, re.M)]


def _patterns(names: Names) -> list[tuple[str, str]]:
    """Where a name is one of a plugin and not of a variable, and what stands there in a collection."""
    plugins, filters, roles, utils = map(_any_of, (names.plugins, names.filters, names.roles, names.utils))
    return [
        (rf"^(\s+(?:- )?)({plugins}):$", rf"\1{PREFIX}\2:"),
        (rf"(M\(|_execute_module\(\")({plugins})\b", rf"\1{PREFIX}\2"),
        (rf"(\|\s*|\b(?:map|select|reject)\(')({filters})\b", rf"\1{PREFIX}\2"),
        (rf"(- role: )({roles})$", rf"\1{PREFIX}\2"),
        (rf"(_role:\n\s+name: )({roles})$", rf"\1{PREFIX}\2"),
        (rf"\bansible\.module_utils\.({utils})\b", rf"ansible_collections.{PREFIX}plugins.module_utils.\1"),
        # The tree of a clone is three levels above a role, the one of a collection beside roles/.
        (r"\{\{ role_path( \| dirname){3} \}\}/results", "{{ lookup('ansible.builtin.env', 'PWD') }}/results"),
        (
            r"role_path \| dirname \| dirname \| dirname|playbook_dir \| dirname(?= }})",
            f"role_path | dirname | dirname ~ '/{SOURCE}'",
        ),
        (r"^_TREE = Path\(__file__\)\.parents\[2\]$", f'_TREE = Path(__file__).parents[2] / "{SOURCE}"'),
        (r'Path\(__file__\)\.parent\.parent / "roles"', 'Path(__file__).parents[2] / "roles"'),
        # Ansible's words for who has no account where its collections are.
        (r"^  - The Highwater maintainers$", "  - The Highwater maintainers (!UNKNOWN)"),
        # A playbook beside a role's folder.
        (r"\]\(\.\./\.\./(\w+)\.yml\)", r"](../../playbooks/\1.yml)"),
    ]


def _any_of(names: Iterable[str]) -> str:
    return "|".join(sorted(names, key=len, reverse=True))


def _placed(path: str) -> str:
    folder, _, rest = path.partition("/")
    if not rest:
        return f"playbooks/{path}"
    return f"{_PLACES.get(folder, folder)}/{rest}"


def _tracked(clone: Path, under: str) -> list[Path]:
    return [Path(name) for name in run(clone, "git", "ls-files", "-z", *_SEEN, under).split("\0") if name]


def _of_source(clone: Path) -> tuple[str, ...]:
    """What highwater_wheelhouse builds from, by its own list, and workloads for the role bench."""
    text = (clone / "playbooks/library/highwater_wheelhouse.py").read_text("utf-8")
    listed = {
        name: re.findall(r'"([^"]+)"', values) for name, values in re.findall(r"^([A-Z]+) = \((.*)\)$", text, re.M)
    }
    rooms = [f"{room}/" for room in (*listed["ROOMS"], "highwater")]
    return (*listed["AROUND"], *listed["LOCKS"], *rooms, *_ALSO_IN_SOURCE)


def _copy(file: Path, to: Path) -> None:
    if file.is_symlink():
        _link(to, str(file.readlink()))
    else:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, to)


def _link(place: Path, target: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def _settings(clone: Path) -> str:
    """ansible.cfg for an inventory: that of the playbooks, but for its paths."""
    text = (clone / "playbooks/ansible.cfg").read_text("utf-8").partition("[defaults]\n")[2]
    kept = re.sub(r"^(library|module_utils|roles_path|\w+_plugins) = .*\n", "", text, flags=re.M)
    return f"""# Read when Ansible is started in this directory.
[defaults]
callbacks_enabled = {PREFIX}highwater_inventory_files
# Else a version of Ansible that the collection is not made for is a warning.
collections_on_ansible_version_mismatch = error
{kept}"""


def _galaxy(project: dict[str, Any]) -> dict[str, Any]:
    return {
        "namespace": NAMESPACE,
        "name": NAME,
        "version": project["version"],
        "readme": "README.md",
        "authors": [author["name"] for author in project["authors"]],
        "description": project["description"],
        "license": [project["license"]],
        "tags": ["kafka", "benchmark", "tuning", "linux", "database"],
        "dependencies": {},
        "build_ignore": [],
    }


def _readme(clone: Path, names: Names) -> str:
    """The page about the collection, with the tables of playbooks and roles that the repository's page has."""
    page = (clone / "playbooks/README.md").read_text("utf-8")
    text = _ABOUT.read_text("utf-8")
    for first in ("playbook", "role"):
        (table,) = re.findall(rf"^\| {first} \|.*\n(?:\|.*\n)+", page, re.M)
        text = text.replace(f"{table.partition(chr(10))[0]}\n", table)
    text = re.sub(r"^\| `(\w+)\.yml`", rf"| `{PREFIX}\1`", text, flags=re.M)
    return rewritten(text, PurePosixPath("README.md"), names)


def _without_links_out(text: str, place: PurePosixPath) -> str:
    """Words of a link to a page that only the repository has stay without the link."""

    def kept(match: re.Match[str]) -> str:
        words, target = match.groups()
        up = target.split("/").count("..")
        is_inside = "://" in target or target.startswith("#") or up < len(place.parts)
        return match[0] if is_inside else words

    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", kept, text)


def _write_yaml(path: Path, content: dict[str, Any]) -> None:
    path.write_text("---\n" + yaml.safe_dump(content, sort_keys=False, allow_unicode=True), "utf-8")
