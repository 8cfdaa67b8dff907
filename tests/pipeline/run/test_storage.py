"""What a pipeline keeps on disk: a flow is run by one process at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.run.storage import Storage


def test_a_flow_is_run_by_one_process_at_a_time(tmp_path: Path) -> None:
    storage, again = Storage(tmp_path / "state/orders"), Storage(tmp_path / "state/orders")
    with storage.claimed(["totals", "late"]):
        with again.claimed(["others"]):
            pass
        with pytest.raises(SettingsError, match=r"orders: another process runs the flow late: stop it first, or set"):
            again.claimed(["others", "late"]).__enter__()
    with again.claimed(["late"]):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"^storage: .*file.* cannot be written: Not a directory$"):
        Storage(tmp_path / "file" / "orders").claimed(["late"]).__enter__()
