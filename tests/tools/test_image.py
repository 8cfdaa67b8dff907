"""The archive of an image: what loads it finds each part by its SHA-256, and two builds are the same bytes."""

from __future__ import annotations

import fnmatch
import hashlib
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tools.release import image
from tools.release.bill import Part
from tools.release.building import Build
from tools.release.debian import part_of
from tools.release.oci import Image, layer_of, write_archive
from tools.release.places import LocalPython

ROOT = Path(__file__).parents[2]
_EPOCH_S = 1_700_000_000
_CREATED = "2023-11-14T22:13:20Z"
_CONTROL = "Package: libc6\nArchitecture: amd64\nVersion: 2.41-12\nDescription: GNU C Library\n with a line more\n"


def _image(place: Path, architecture: str = "amd64") -> Image:
    root = place / architecture
    (root / "var/lib/dpkg/status.d").mkdir(parents=True)
    (root / "var/lib/dpkg/status.d/libc6").write_text(_CONTROL.replace("amd64", architecture))
    (root / "lib/site-packages/typing_extensions-4.16.0.dist-info").mkdir(parents=True)
    (root / "log").mkdir(mode=0o755)
    (root / "one").write_text("one")
    (root / "other").hardlink_to(root / "one")
    (root / "link").symlink_to("one")
    config = {"User": "65532", "Labels": {"org.opencontainers.image.title": "T"}}
    return Image(architecture, (layer_of(root, _EPOCH_S, {"log": 65532}),), config, _CREATED)


def _read(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {entry.name: file.read() for entry in archive if (file := archive.extractfile(entry))}


def _follow(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    kind, _, digest = descriptor["digest"].partition(":")
    content = files[f"blobs/{kind}/{digest}"]
    assert hashlib.sha256(content).hexdigest() == digest
    assert len(content) == descriptor["size"]
    return content


def test_an_archive_is_the_same_bytes_whatever_the_folder(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.tar"
        write_archive(path, "h:1", [_image(tmp_path / name)], _EPOCH_S)
        made.append(path.read_bytes())
    assert made[0] == made[1]


def test_each_part_is_found_by_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    write_archive(path, "h:1", [_image(tmp_path)], _EPOCH_S)
    files = _read(path)
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (named,) = json.loads(files["index.json"])["manifests"]
    assert named["annotations"]["org.opencontainers.image.ref.name"] == "h:1"
    manifest = json.loads(_follow(files, named))
    config = json.loads(_follow(files, manifest["config"]))
    assert (config["architecture"], config["os"], config["config"]["User"]) == ("amd64", "linux", "65532")
    (layer,) = manifest["layers"]
    with tarfile.open(fileobj=io.BytesIO(_follow(files, layer))) as found:
        entries = {entry.name: entry for entry in found}
    assert {entry.mtime for entry in entries.values()} == {_EPOCH_S}
    assert {name for name, entry in entries.items() if entry.uid} == {"log"}
    assert entries["other"].isreg()  # not a link to a name that may come after it
    assert entries["link"].linkname == "one"
    # What Docker before 25 reads.
    (old,) = json.loads(files["manifest.json"])
    assert old["RepoTags"] == ["h:1"]
    assert {old["Config"], *old["Layers"]} <= files.keys()


def test_an_archive_for_two_processors_has_one_index_of_both(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    write_archive(path, "h:1", [_image(tmp_path, "amd64"), _image(tmp_path, "arm64")], _EPOCH_S)
    files = _read(path)
    (named,) = json.loads(files["index.json"])["manifests"]
    index = json.loads(_follow(files, named))
    assert [each["platform"]["architecture"] for each in index["manifests"]] == ["amd64", "arm64"]
    assert "manifest.json" not in files  # Docker before 25 would take the first for its own
    assert image.parts_of(path) == [
        Part("deb", "libc6", "2.41-12", "amd64"),
        Part("deb", "libc6", "2.41-12", "arm64"),
        Part("pypi", "typing-extensions", "4.16.0"),
    ]


def test_a_note_of_a_package_is_read() -> None:
    assert part_of(_CONTROL) == Part("deb", "libc6", "2.41-12", "amd64")


def test_each_pattern_of_the_documentation_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "_image", lambda *of: None)
    monkeypatch.setattr(image, "write_archive", lambda *of: None)
    build = Build(tmp_path, tmp_path, tmp_path, _EPOCH_S, "0.2.0")
    names = [path.name for path in image.images(build)]
    text = "".join(path.read_text("utf-8") for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")])
    patterns = set(re.findall(r"load --input (?:dist/)?(\S+?\.tar)", text))
    assert len(patterns) >= 2
    assert {pattern: len(fnmatch.filter(names, pattern)) for pattern in patterns} == dict.fromkeys(patterns, 1)


def test_an_image_is_tried_where_its_processor_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = (LocalPython("3.11", "python3.11"),)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert image.try_image(tmp_path / "h-1-image-aarch64.tar", here) == []
    assert image.try_image(tmp_path / "h-1-image-x86_64.tar", ()) == []
    (said,) = image.try_image(tmp_path / "h-1-image-x86_64.tar", here)
    assert "apt-get install -y podman" in said
