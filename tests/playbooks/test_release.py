"""Releases on a host, and their names on the controller: installed beside each other, switched, pruned, cut short."""

from __future__ import annotations

import ensurepip
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.modules import TREE, call, load
from tests.playbooks.playing import play

wheelhouse = load("library/highwater_wheelhouse.py")
REPOSITORY = TREE.parent


def make_wheel(directory: Path, name: str, version: str, text: str, *requirements: str) -> str:
    """One module of one line; no tool is needed for that."""
    directory.mkdir(parents=True, exist_ok=True)
    file_name = f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requirements)
    with zipfile.ZipFile(directory / file_name, "w") as wheel:
        wheel.writestr(f"{name}.py", f"WHICH = {text!r}\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return file_name


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """With pip's wheel, as the controller ships it."""
    bundled = Path(ensurepip.__file__).parent / "_bundled"
    # Debian's Python takes its wheels from a package of their own.
    (pip,) = (bundled if bundled.is_dir() else Path("/usr/share/python-wheels")).glob("pip-*.whl")
    (tmp_path / "wheels").mkdir()
    shutil.copy(pip, tmp_path / "wheels")
    return tmp_path


def ask(host: Path, state: str, name: str = "", *, check: bool = False, wheels: tuple[str, ...] = ()) -> dict[str, Any]:
    pips = [path.name for path in (host / "wheels").glob("pip-*.whl")]
    return call(
        "highwater_release",
        check=check,
        root=str(host / "broker"),
        state=state,
        name=name,
        wheels_directory=str(host / "wheels"),
        wheels=[*wheels, *pips],
        python=sys.executable,
    )


def which(host: Path, link: str = "current") -> str:
    command = [str(host / f"broker/{link}/bin/python"), "-c", "import highwater_kafka; print(highwater_kafka.WHICH)"]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.strip()


def install(host: Path, name: str) -> dict[str, Any]:
    wheel = make_wheel(host / "wheels", "highwater_kafka", "0.1", name)
    return ask(host, "installed", name, wheels=(wheel,))


@pytest.mark.slow
def test_a_release_from_check_to_pruned(host: Path) -> None:
    foreseen = ask(host, "installed", "one", check=True)
    assert (foreseen["changed"], foreseen["is_installed"]) == (True, False)
    assert ask(host, "current", "one", check=True)["changed"]
    assert not (host / "broker").exists()

    assert install(host, "one")["diff"]["after"] == "one\n"
    assert not install(host, "one")["changed"]
    assert ask(host, "found", "one")["current"] == "", "installed is not in use"
    assert ask(host, "current", "one")["changed"]
    assert not ask(host, "current", "one")["changed"]
    assert which(host) == "one"

    for name in ("two", "three"):
        install(host, name)
        ask(host, "current", name)
    assert (which(host), which(host, "previous")) == ("three", "two")
    assert ask(host, "pruned", check=True)["diff"]["before"] == "one\n"
    assert ask(host, "pruned")["changed"]
    assert not ask(host, "pruned")["changed"]
    assert sorted(path.name for path in (host / "broker/releases").iterdir()) == ["three", "two"]

    back = ask(host, "current", "previous")
    assert (back["name"], back["current"]) == ("two", "three")
    assert (which(host), which(host, "previous")) == ("two", "three")

    assert ask(host, "absent", check=True)["changed"]
    assert ask(host, "absent")["changed"]
    assert not (host / "broker").exists()
    assert not ask(host, "absent")["changed"]


@pytest.mark.slow
def test_what_was_cut_short_is_made_anew(host: Path) -> None:
    half = host / "broker/releases/one"
    half.mkdir(parents=True)
    (half / "leftover").touch()
    assert install(host, "one")["changed"]
    assert not (half / "leftover").exists()


@pytest.mark.slow
def test_a_release_that_some_process_was_started_from_stays(host: Path) -> None:
    for name in ("one", "two", "three"):
        install(host, name)
        ask(host, "current", name)
    python = host / "broker/releases/one/bin/python"
    with subprocess.Popen([str(python), "-c", "input()"], stdin=subprocess.PIPE) as running:
        try:
            assert not ask(host, "pruned")["changed"]
        finally:
            running.kill()
    assert ask(host, "pruned")["changed"]


@pytest.mark.slow
def test_wheels_that_lack_something_are_no_release(host: Path) -> None:
    wheel = make_wheel(host / "wheels", "highwater_kafka", "0.1", "x", "kio")
    failed = ask(host, "installed", "one", wheels=(wheel,))
    assert "requires kio, which is not installed" in failed["msg"]
    assert not ask(host, "found", "one")["is_installed"]


@pytest.mark.slow
def test_a_release_that_is_not_there_is_told_with_those_that_are(host: Path) -> None:
    install(host, "one")
    assert "release two is not installed" in ask(host, "current", "two")["msg"]
    assert ask(host, "current", "two")["msg"].endswith("there are: one")
    assert "no previous release" in ask(host, "current", "previous")["msg"]


# The controller's side


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """As small as a tree can be."""
    tree = tmp_path / "tree"
    for room in (wheelhouse.PACKAGE, *wheelhouse.ROOMS):
        (tree / room).mkdir(parents=True)
        (tree / room / "__init__.py").write_text(f'"""{room}"""\n')
    for name in wheelhouse.AROUND:
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_bytes((REPOSITORY / name).read_bytes())
    return tree


def test_a_release_has_every_room() -> None:
    """A room that is left out is a command that hosts do not have."""
    links = {path.name for path in (REPOSITORY / wheelhouse.PACKAGE).iterdir() if path.is_symlink()}
    assert set(wheelhouse.ROOMS) == links


def test_a_release_is_named_after_what_is_in_it(tree: Path) -> None:
    version = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    name = wheelhouse.name_of_tree(tree, [])
    assert name.startswith(f"{version}-")
    cache = tree / "broker/__pycache__"
    cache.mkdir()
    (cache / "cli.cpython-311.pyc").touch()
    assert wheelhouse.name_of_tree(tree, []) == name, "what Python leaves behind is no part of it"
    assert wheelhouse.name_of_tree(tree, ["bench"]) != name
    (tree / "broker/__init__.py").write_text('"""Another."""\n')
    assert wheelhouse.name_of_tree(tree, []) != name


def test_in_check_mode_the_controller_builds_nothing(tree: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    arguments: dict[str, Any] = {
        "source": str(tree),
        "cache": str(cache),
        "python_version": "3.11",
        "machine": "x86_64",
    }
    answer = call("highwater_wheelhouse", check=True, **arguments)
    assert (answer["name"], answer["wheels"]) == (wheelhouse.name_of_tree(tree, []), [])
    assert not cache.exists()


class OwnPip:
    """In place of Tools: the pip of the tests."""

    def pip(self, *arguments: str) -> None:
        wheelhouse.run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments)


@pytest.fixture
def index(tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that pip finds: what our wheel needs, what that needs, and pip; the tree pins their SHA-256."""
    links = tmp_path / "links"
    names = [make_wheel(links, "one", "1", "one", "two"), make_wheel(links, "two", "2", "two")]
    make_wheel(links, "three", "3", "needed by nobody")
    pip = make_wheel(links, "pip", wheelhouse.pins(tree)["pip"].version, "pip")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    pin(tree, wheelhouse.LOCKS[0], links, *names)
    pin(tree, wheelhouse.LOCKS[1], links)
    pin(tree, wheelhouse.LOCKS[2], links, pip)
    (tree / "constraints.txt").write_text("one==1\ntwo==2\n")
    return links


def pin(tree: Path, lock: str, links: Path, *names: str) -> None:
    """With a marker that is not so, as a release decides for the host and not for the controller."""
    hashes = {name: hashlib.sha256((links / name).read_bytes()).hexdigest() for name in names}
    entries = (
        f"{name.split('-')[0]}=={name.split('-')[1]} ; sys_platform == 'x' \\\n    --hash=sha256:{digest}\n"
        for name, digest in hashes.items()
    )
    (tree / lock).write_text("# Made by: make lock\n" + "".join(entries))


def fetch(tmp_path: Path, tree: Path) -> list[str]:
    """File names of what a release of the tree is made of, beside our own wheel."""
    ours = tmp_path / "ours" / make_wheel(tmp_path / "ours", "highwater_kafka", "0.1", "x", "one")
    fetched = tmp_path / "fetched"
    target = wheelhouse.Target(f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine())
    wheelhouse.fetch_dependencies(ours, tree, fetched, [], target, OwnPip())
    return sorted(path.name.partition("-")[0] for path in fetched.iterdir())


def test_a_release_has_what_is_needed_and_nothing_else(tmp_path: Path, tree: Path, index: Path) -> None:
    assert fetch(tmp_path, tree) == ["one", "pip", "two"]


@pytest.mark.parametrize("name", ["two", "pip"])
def test_a_file_that_was_exchanged_makes_no_release(name: str, tmp_path: Path, tree: Path, index: Path) -> None:
    (wheel,) = index.glob(f"{name}-*.whl")
    make_wheel(index, name, wheel.name.split("-")[1], "another")
    with pytest.raises(wheelhouse.WheelhouseError) as refused:
        fetch(tmp_path, tree)
    assert str(refused.value).startswith(f"requirements/ of the tree pins another file than {name}==")
    assert str(refused.value).endswith(": no release was made; find out who changed it")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("pinned", [[], ["two-1-py3-none-any.whl"]])
def test_what_has_no_hash_makes_no_release(pinned: list[str], tmp_path: Path, tree: Path, index: Path) -> None:
    make_wheel(index, "two", "1", "older")
    pin(tree, wheelhouse.LOCKS[0], index, "one-1-py3-none-any.whl", *pinned)
    with pytest.raises(wheelhouse.WheelhouseError) as refused:
        fetch(tmp_path, tree)
    assert str(refused.value) == "requirements/ of the tree has no SHA-256 of two 2; make lock adds it"


def test_what_cannot_be_found_is_told_with_the_way_out(tmp_path: Path, tree: Path, index: Path) -> None:
    (index / "one-1-py3-none-any.whl").unlink()
    told = r"cannot fetch the wheels \(ERROR: (?!ResolutionImpossible).*\); it needs pip and .* as package_wheelhouse"
    with pytest.raises(wheelhouse.WheelhouseError, match=told):
        fetch(tmp_path, tree)


def test_all_that_hosts_get_is_pinned() -> None:
    """By the files that the module reads, each release of the extras that roles ask for."""
    pinned = wheelhouse.pins(REPOSITORY)
    versions = dict(
        line.split("==") for line in (REPOSITORY / "constraints.txt").read_text("utf-8").splitlines() if "==" in line
    )
    lacking = [name for name, version in versions.items() if pinned[wheelhouse.canonical(name)].version != version]
    assert lacking == []
    assert all(pin.hashes for pin in pinned.values())
    assert {"pip", "setuptools"} <= pinned.keys()


def test_what_is_no_tree_is_told(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "source": str(tmp_path),
        "cache": str(tmp_path),
        "python_version": "3.11",
        "machine": "x86_64",
    }
    assert "is not a tree of Highwater" in call("highwater_wheelhouse", **arguments)["msg"]


def test_a_directory_of_wheels_is_taken_as_it_is(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "source": "/",
        "cache": "/",
        "python_version": "3.11",
        "machine": "x86_64",
        "ready": str(tmp_path),
    }
    assert "holds 0 wheels, 0 of them of highwater" in call("highwater_wheelhouse", **arguments)["msg"]
    make_wheel(tmp_path, "highwater_kafka", "0.1", "x")
    make_wheel(tmp_path, "pip", "25", "x")
    answer = call("highwater_wheelhouse", **arguments)
    assert answer["name"].startswith("0.1-")
    assert len(answer["wheels"]) == 2


def test_the_cache_keeps_the_newest_and_what_they_are_made_of(tmp_path: Path) -> None:
    for number in range(wheelhouse.KEPT_RELEASES + 2):
        dependencies = tmp_path / f"dependencies-{number}"
        dependencies.mkdir()
        (dependencies / "kio-1.whl").write_text(str(number))
        release = tmp_path / f"0.1-{number}"
        release.mkdir()
        (release / "kio-1.whl").hardlink_to(dependencies / "kio-1.whl")
    wheelhouse.prune(tmp_path)
    assert len(list(tmp_path.glob("0.1-*"))) == wheelhouse.KEPT_RELEASES
    assert len(list(tmp_path.glob("dependencies-*"))) == wheelhouse.KEPT_RELEASES


def bring(directory: Path, dest: Path, *options: str) -> str:
    """By Ansible itself, as all of it is an action plugin; what it printed."""
    task = {"highwater_wheels": {"directory": str(directory), "dest": str(dest)}}
    plays = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task]}]
    playbook = directory.parent / "bring.yml"
    playbook.write_text(json.dumps(plays))
    done = play(directory.parent, "-v", playbook, *options)
    return done.stdout + done.stderr


@pytest.mark.slow
def test_only_wheels_that_the_host_lacks_are_brought(tmp_path: Path) -> None:
    directory, dest = tmp_path / "here", tmp_path / "there"
    dest.mkdir()
    names = [make_wheel(directory, name, "1", name) for name in ("one", "two", "three")]
    shutil.copy(directory / names[0], dest)
    # Cut short, and of the same name with other content: as our own wheel is called the same in each release.
    (dest / names[1]).write_bytes((directory / names[1]).read_bytes()[:100])
    make_wheel(dest, "three", "1", "eerht")
    assert "changed=1" in bring(directory, dest, "--check")
    assert (dest / names[1]).stat().st_size == 100
    told = bring(directory, dest)
    assert "changed=1" in told
    assert names[0] not in told
    assert {path.name: path.read_bytes() for path in dest.iterdir()} == {
        path.name: path.read_bytes() for path in directory.iterdir()
    }
    assert "changed=0" in bring(directory, dest)


def test_wheels_for_a_directory_that_is_not_there_are_refused(tmp_path: Path) -> None:
    make_wheel(tmp_path / "here", "one", "1", "one")
    assert "cannot be unpacked in" in bring(tmp_path / "here", tmp_path / "there")


def test_a_directory_without_wheels_is_told(tmp_path: Path) -> None:
    """A misspelt one would bring nothing, and the installation would fail for want of it."""
    assert f"{tmp_path}/nowhere on the controller has no wheels to bring" in " ".join(
        bring(tmp_path / "nowhere", tmp_path).split()
    )
