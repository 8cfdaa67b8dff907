"""What only the simulated ZooKeeper can be made to do: the contract's own tests run on it and on a real one alike."""

from __future__ import annotations

from highwater.broker.cluster.zookeeper import (
    Create,
    Created,
    Delete,
    Exists,
    Get,
    Multi,
    Set,
    WatchEvent,
    ZooKeeperError,
)
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.simulation.zookeeper import Ensemble, SimulatedZooKeeper
from tests.broker.zookeeper_clients import Told


def client_of(ensemble: Ensemble, scheduler: ManualScheduler) -> tuple[SimulatedZooKeeper, Told]:
    told = Told()
    client = ensemble.client(told, session_timeout_ms=6000)
    scheduler.run()
    assert told.taken() == ["began"]
    return client, told


def test_a_watch_is_told_before_the_answer_that_shows_the_change() -> None:
    scheduler = ManualScheduler()
    ensemble = Ensemble(scheduler)
    reader, told = client_of(ensemble, scheduler)
    writer, _ = client_of(ensemble, scheduler)
    reader.execute([Exists("/a", watch=True)], told.answered)
    scheduler.run()
    assert told.taken() == [[ZooKeeperError.NO_NODE]]
    writer.execute([Create("/a", b"1")], lambda _: None)
    reader.execute([Get("/a")], told.answered)
    scheduler.run()
    fired, (node,) = told.taken()
    assert fired == ("/a", WatchEvent.CREATED)
    assert node.data == b"1"


def test_an_ephemeral_node_ends_with_its_session_and_not_before() -> None:
    scheduler = ManualScheduler()
    ensemble = Ensemble(scheduler)
    client, told = client_of(ensemble, scheduler)
    client.execute([Create("/a", is_ephemeral=True)], told.answered)
    scheduler.run()
    client.cut()
    scheduler.run(5000)
    assert ensemble.stat("/a") is not None
    scheduler.run(1000)
    assert ensemble.stat("/a") is None
    client.execute([Exists("/a")], told.answered)
    scheduler.run(1000)
    ((created,), *rest) = told.taken()
    assert isinstance(created, Created)
    assert rest == ["disconnected"]
    client.heal()
    scheduler.run()
    assert told.taken() == [[ZooKeeperError.SESSION_EXPIRED], "ended", "began"]


def test_a_pause_beyond_the_time_out_ends_the_session() -> None:
    scheduler = ManualScheduler()
    ensemble = Ensemble(scheduler)
    client, told = client_of(ensemble, scheduler)
    client.pause()
    scheduler.run(5999)
    client.resume()
    scheduler.run(10_000)
    assert told.taken() == []
    client.pause()
    scheduler.run(6000)
    client.resume()
    scheduler.run()
    assert told.taken() == ["ended", "began"]


def test_requests_of_a_broken_connection_are_asked_again_and_watches_are_not_lost() -> None:
    scheduler = ManualScheduler()
    ensemble = Ensemble(scheduler)
    client, told = client_of(ensemble, scheduler)
    ensemble.make("/a", b"1")
    client.execute([Get("/a", watch=True)], told.answered)
    scheduler.run()
    told.taken()
    client.execute([Set("/a", b"2", version=0)], told.answered)
    client.lose_connection()
    scheduler.run()
    disconnected, connected, fired, (stat,) = told.taken()
    assert (disconnected, connected, fired) == ("disconnected", "connected", ("/a", WatchEvent.CHANGED))
    assert stat.version == 1


def test_a_short_cut_only_delays() -> None:
    scheduler = ManualScheduler()
    ensemble = Ensemble(scheduler)
    client, told = client_of(ensemble, scheduler)
    client.cut()
    client.execute([Create("/a")], told.answered)
    scheduler.run(3000)
    assert told.taken() == []
    client.heal()
    scheduler.run()
    ((created,),) = told.taken()
    assert created.path == "/a"


def test_a_transaction_is_whole_or_not_at_all() -> None:
    scheduler = ManualScheduler()
    ensemble = Ensemble(scheduler)
    client, told = client_of(ensemble, scheduler)
    ensemble.make("/a", b"1")
    refused = Multi((Create("/b"), Create("/b/c"), Delete("/b"), Set("/a", b"2")))
    carried_out = Multi((Create("/b"), Create("/b/c"), Set("/a", b"2", version=0), Delete("/b/c")))
    client.execute([refused, Exists("/b"), carried_out, Exists("/b")], told.answered)
    scheduler.run()
    ((first, gone, second, there),) = told.taken()
    rolled_back = ZooKeeperError.ROLLED_BACK
    assert first == [rolled_back, rolled_back, ZooKeeperError.NOT_EMPTY, rolled_back]
    assert gone is ZooKeeperError.NO_NODE
    assert not any(isinstance(result, ZooKeeperError) for result in second)
    assert second[0].stat.czxid == second[1].stat.czxid == there.czxid
    assert ensemble.data("/a") == b"2"
    assert ensemble.children("/b") == []


def test_an_ensemble_that_starts_again_keeps_its_sessions() -> None:
    scheduler = ManualScheduler()
    ensemble = Ensemble(scheduler)
    client, told = client_of(ensemble, scheduler)
    client.execute([Create("/a", is_ephemeral=True)], told.answered)
    scheduler.run()
    told.taken()
    ensemble.stop()
    for _ in range(10):
        scheduler.run(5000)
    ensemble.start()
    scheduler.run()
    assert told.taken() == ["disconnected", "connected"]
    assert ensemble.stat("/a") is not None
