"""`highwater broker log-dirs` against a running broker."""

from __future__ import annotations

import pytest

from tests.admin.calling import call
from tests.broker.running import RunningBroker


@pytest.mark.clients
def test_sizes_are_those_of_the_files(broker: RunningBroker) -> None:
    call("topics", "-b", broker.address, "--create", "--topic", "sized", "--partitions", "2")
    assert (
        call("produce", "-b", broker.address, "--topic", "sized", "--partition", "1", stdin="x\n" * 500).exit_code == 0
    )
    sizes = call("log-dirs", "-b", broker.address, "--topic", "sized", "--json").json
    assert [(size["broker"], size["log_dir"], size["partition"], size["size_bytes"]) for size in sizes] == [
        (0, str(broker.log_dir), index, sum(path.stat().st_size for path in (broker.log_dir / name).glob("*.log")))
        for index, name in enumerate(("sized-0", "sized-1"))
    ]
    assert sizes[1]["size_bytes"] > 1000
    assert "2 partitions" in call("log-dirs", "-b", broker.address, "--topic", "sized").output


@pytest.mark.clients
def test_an_unknown_topic_is_one_line(broker: RunningBroker) -> None:
    call("topics", "-b", broker.address, "--create", "--topic", "known")
    result = call("log-dirs", "-b", broker.address, "--topic", "knwn")
    assert (result.exit_code, result.output) == (1, "")
    assert result.errors == "error: there is no topic knwn; did you mean known?\n"
