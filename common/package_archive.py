"""A zip of a part of the package, which Spark's executors import from."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parent.parent
_SKIPPED: Final = shutil.ignore_patterns("__pycache__")


def write_archive(scratch: Path, name: str, folders: Iterable[str]) -> Path:
    """Write `<scratch>/<name>.zip` with `highwater` and these folders of it, such as `common` or `broker/records`.

    The `__init__.py` files above a folder come along.
    """
    copy = scratch / "package"
    for folder in folders:
        source, target = _PACKAGE / folder, copy / "highwater" / folder
        shutil.copytree(source, target, ignore=_SKIPPED)
        for depth in range(1, len(Path(folder).parts)):
            above = Path(*Path(folder).parts[:depth], "__init__.py")
            shutil.copy(_PACKAGE / above, copy / "highwater" / above)
    shutil.copy(_PACKAGE / "__init__.py", copy / "highwater")
    return Path(shutil.make_archive(str(scratch / name), "zip", copy))
