"""Programs run with the compiled broker: which wheel is taken, what it is refused for, and where they run."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from tests import compiled
from tests.compiled import NoCompiledBrokerError, check_sources, environment_of, lay_out, run, wheel_in

_TAG: Final = f"cp{sys.version_info.major}{sys.version_info.minor}"
_NAME: Final = f"highwater_kafka-0.2.0-{_TAG}-{_TAG}-linux_x86_64.whl"
_LIST: Final = """
MODULES = ("highwater.broker.log",)
def compiled_modules(): return {found}
def which_runs(): return "the 1 hot modules run compiled" if compiled_modules() else "the hot modules run as Python"
"""


def checkout_with(tmp_path: Path, *, is_compiled: bool) -> tuple[Path, Path]:
    """A small checkout, and a wheel of it whose list of modules says that they are compiled, or not."""
    files = {
        "highwater/__init__.py": "",
        "highwater/broker/__init__.py": "",
        "highwater/broker/log.py": "PLACE = __file__\n",
        "highwater/broker/server/__init__.py": "",
        "highwater/broker/server/compiled.py": _LIST.format(found=list(("highwater.broker.log",) * is_compiled)),
    }
    checkout = tmp_path / "checkout"
    for name, text in files.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text)
    (checkout / "tests").mkdir()
    (checkout / "tests" / "__init__.py").write_text("")
    (checkout / "docs").mkdir()
    (checkout / "docs" / "page.md").write_text("a page")
    (checkout / ".git").mkdir()
    (checkout / "broker").symlink_to("highwater/broker")
    wheel = tmp_path / _NAME
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return checkout, wheel


def test_the_wheel_for_this_python_is_taken(tmp_path: Path) -> None:
    for name in (_NAME, "highwater_kafka-0.2.0-cp27-cp27-linux_x86_64.whl", "highwater_kafka-0.2.0-py3-none-any.whl"):
        (tmp_path / name).touch()
    assert wheel_in(tmp_path) == tmp_path / _NAME


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ((), "has no compiled wheel for this Python: make compiled builds it"),
        (
            (_NAME, _NAME.replace("0.2", "0.1")),
            "has several compiled wheels, remove all but one: highwater_kafka-0.1.0-",
        ),
    ],
)
def test_no_wheel_and_several_are_one_line(names: tuple[str, ...], says: str, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(NoCompiledBrokerError, match=says):
        wheel_in(tmp_path)


def test_a_wheel_of_other_sources_is_refused(tmp_path: Path) -> None:
    checkout, wheel = checkout_with(tmp_path, is_compiled=True)
    check_sources(wheel, checkout)
    (checkout / "highwater/broker/log.py").write_text("PLACE = 'edited'\n")
    with pytest.raises(NoCompiledBrokerError, match=r"was built from another highwater/broker/log\.py: make compiled"):
        run(wheel, checkout, ["-c", ""])
    wheel.write_bytes(b"no archive")
    with pytest.raises(NoCompiledBrokerError, match="cannot be read: File is not a zip file"):
        run(wheel, checkout, ["-c", ""])


def test_a_wheel_that_runs_as_python_is_refused(tmp_path: Path) -> None:
    checkout, wheel = checkout_with(tmp_path, is_compiled=False)
    with pytest.raises(NoCompiledBrokerError, match="does not run compiled here: the hot modules run as Python"):
        run(wheel, checkout, ["-c", ""])


def test_the_folder_is_like_the_checkout(tmp_path: Path) -> None:
    checkout, wheel = checkout_with(tmp_path, is_compiled=True)
    place = tmp_path / "place"
    lay_out(wheel, checkout, place)
    assert sorted(entry.name for entry in place.iterdir()) == ["broker", "docs", "highwater", "tests"]
    assert (place / "broker").resolve() == place / "highwater" / "broker"
    assert (place / "docs" / "page.md").read_text() == "a page"
    assert not (place / "tests").is_symlink()


def test_programs_and_their_processes_use_the_wheel_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, wheel = checkout_with(tmp_path, is_compiled=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))
    result = tmp_path / "result"
    inner = f"import sys; from highwater.broker.log import PLACE; open({str(result)!r}, 'w').write(PLACE); sys.exit(7)"
    outer = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-P', '-c', {inner!r}], cwd='/'))"
    assert run(wheel, checkout, ["-c", outer]) == 7
    used = Path(result.read_text())
    assert used.parts[-3:] == ("highwater", "broker", "log.py")
    assert used.parents[2].name.startswith("highwater-compiled-")
    assert not used.exists(), "the folder is removed at the end"
    assert environment_of(Path("/place"))["PYTHONPATH"] == f"/place:{elsewhere}"


def test_a_program_that_is_killed_has_the_status_of_a_shell(tmp_path: Path) -> None:
    checkout, wheel = checkout_with(tmp_path, is_compiled=True)
    assert run(wheel, checkout, ["-c", "import os; os.kill(os.getpid(), 9)"]) == 137


def test_wrong_use_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiled, "ROOT", tmp_path)
    assert compiled.main([]) == 2
    assert compiled.main(["-m", "tests.drills.kill9"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "python -m tests.compiled wants arguments of Python: -m tests.drills.kill9 --rounds 3",
        f"{tmp_path / 'dist'} has no compiled wheel for this Python: make compiled builds it",
    ]
