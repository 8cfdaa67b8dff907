"""What is refused before anything is written; what the environment does is in test_standalone.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.pipeline.environment import packing
from highwater.pipeline.environment.packing import pack
from highwater.pipeline.errors import SettingsError


@pytest.mark.parametrize("name", ["environment", "environment.tar.gz"])
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("kept")
    with pytest.raises(SettingsError, match=f"{name} is there already: remove it, or name another folder$"):
        pack(tmp_path / "environment")
    assert (tmp_path / name).read_text() == "kept"
    assert list(tmp_path.iterdir()) == [tmp_path / name]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("pyarow", r"; did you mean pyarrow\?"), ("zzzzzz", r"; install it: .* -m pip install zzzzzz")],
)
def test_a_package_that_is_not_installed_is_named(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name} is not installed in .*{hint}$"):
        pack(tmp_path / "environment", [name])
    assert list(tmp_path.iterdir()) == []


def installed(place: Path, name: str, files: dict[str, str], requires: str = "") -> None:
    """A distribution as pip leaves it, without a package index."""
    about = f"{name}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    files = {**files, f"{about}/METADATA": metadata}
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    (place / about / "RECORD").write_text("".join(f"{path},,\n" for path in (*files, f"{about}/RECORD")))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose distributions are installed; of ours, tasks need none."""
    monkeypatch.setattr(packing, "DISTRIBUTIONS", ())
    found = tmp_path / "site"
    found.mkdir()
    monkeypatch.syspath_prepend(found)
    return found


def test_a_package_of_the_user_that_requires_highwater(site: Path, tmp_path: Path) -> None:
    installed(site, "highwater", {"highwater/__init__.py": "", "highwater/common/__init__.py": ""})
    installed(site, "steps", {"steps/__init__.py": "", "steps/include/__init__.py": ""}, "highwater")
    packed = pack(tmp_path / "environment", ["steps"])
    assert packed.distributions == ("steps 1.0",)
    assert (packed.folder / "lib/highwater/pipeline/kafka/records.py").is_file()
    assert (packed.folder / "lib/steps/include/__init__.py").is_file()


def test_an_editable_package_is_refused(site: Path, tmp_path: Path) -> None:
    """Only the path of its files on this host would come along."""
    origin = '{"url": "file:///my%20own/steps", "dir_info": {"editable": true}}'
    installed(site, "steps", {"__editable__.steps-1.0.pth": "", "steps-1.0.dist-info/direct_url.json": origin})
    with pytest.raises(SettingsError, match=r"^steps is installed as editable, .*: pip install /my own/steps$"):
        pack(tmp_path / "environment", ["steps"])
    assert list(tmp_path.iterdir()) == [site]


def test_a_folder_that_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"^\. is there already"):
        pack(Path())
