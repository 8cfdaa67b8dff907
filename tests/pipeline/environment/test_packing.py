"""What is refused before anything is written; what the environment does is in test_standalone.py."""

from __future__ import annotations

from pathlib import Path

import pytest

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
