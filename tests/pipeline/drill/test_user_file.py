"""Files of the user: loaded, or refused with what they lack."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.pipeline.drill.user_file import UserFileError, load


def test_functions_are_found(tmp_path: Path) -> None:
    file = tmp_path / "query.py"
    file.write_text("def transform(frame):\n    return frame\n")
    assert load(file, ["transform"]).transform(7) == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "is not a Python file"),
        ("def other(): ...", "has no function transform"),
        ("transform = 7", "has no function transform"),
        ("import nothing_of_this_name", "cannot be run: ModuleNotFoundError"),
        ("def transform(:", "cannot be run: SyntaxError"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "query.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserFileError, match=message):
        load(file, ["transform"])
