"""A copy or a zip of a part of the package, which Spark's executors import from."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parent.parent
# Machine code of a compiled wheel needs a file beside the package, and executors like this host.
_SKIPPED: Final = shutil.ignore_patterns("__pycache__", "*.so")


def copy_package(target: Path, folders: Iterable[str]) -> None:
    """Write `<target>/highwater` with these folders and files of the package, such as `common` or `kafka/pacing.py`.

    The `__init__.py` files above a folder come along.
    """
    for folder in folders:
        copy = target / "highwater" / folder
        if (_PACKAGE / folder).is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(_PACKAGE / folder, copy)
        else:
            shutil.copytree(_PACKAGE / folder, copy, ignore=_SKIPPED)
        for depth in range(1, len(Path(folder).parts)):
            above = Path(*Path(folder).parts[:depth], "__init__.py")
            shutil.copy(_PACKAGE / above, target / "highwater" / above)
    shutil.copy(_PACKAGE / "__init__.py", target / "highwater")


def write_archive(scratch: Path, name: str, folders: Iterable[str]) -> Path:
    """Write `<scratch>/<name>.zip` with `highwater` and these folders of it (`copy_package`)."""
    copy_package(scratch / "package", folders)
    return Path(shutil.make_archive(str(scratch / name), "zip", scratch / "package"))
