from __future__ import annotations

from pathlib import Path

from highwater.broker.commands.zookeeper_process import mode, plan_ensemble, write_files
from highwater.common.ports import free_ports


def test_an_ensemble_knows_its_peers_and_a_server_alone_has_none(tmp_path: Path) -> None:
    alone = plan_ensemble(tmp_path / "alone", [1, 2, 3])
    write_files(alone, {"tickTime": "100"})
    text = (alone[0].directory / "zoo.cfg").read_text()
    assert "tickTime=100\n" in text
    assert "server." not in text

    three = plan_ensemble(tmp_path / "three", list(range(1, 10)))
    write_files(three)
    for node in three:
        text = (node.directory / "zoo.cfg").read_text()
        for line in ("server.1=127.0.0.1:2:3", "server.2=127.0.0.1:5:6", "server.3=127.0.0.1:8:9"):
            assert f"{line}\n" in text
        assert f"clientPort={3 * node.number - 2}\n" in text
        assert (node.directory / "data/myid").read_text() == f"{node.number}\n"


def test_nobody_serves_where_nobody_listens(tmp_path: Path) -> None:
    assert mode(plan_ensemble(tmp_path, free_ports(3))[0]) is None
