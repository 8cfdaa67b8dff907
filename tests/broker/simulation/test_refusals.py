"""Brokers that refuse connections and live: nobody takes them for dead, nor the place of a controller among them."""

from __future__ import annotations

from highwater.broker.cluster import znodes
from highwater.broker.settings import metadata_tree
from tests.broker.simulation.cluster import Cluster
from tests.broker.simulation.story import Story

_LONG_MS = 120_000


def _controller_epoch(cluster: Cluster) -> int:
    data = cluster.ensemble.data(metadata_tree.CONTROLLER_EPOCH)
    assert data is not None
    return int(data)


def _live(cluster: Cluster) -> list[int]:
    """The brokers that the controller counts as alive."""
    contexts = [
        broker.parts.parts.controller.context for broker in cluster.brokers.values() if broker.parts is not None
    ]
    (brokers,) = [context.brokers for context in contexts if context is not None]
    return sorted(brokers)


def test_brokers_whose_advertised_addresses_lead_to_nobody_do_not_depose_each_other() -> None:
    cluster = Cluster(0, brokers=5)
    for broker in cluster.brokers.values():
        broker.endpoint = broker.endpoint._replace(host="where-nobody-listens")
    cluster.start()
    assert cluster.world.run(20_000, lambda: all(broker.is_registered for broker in cluster.brokers.values()))
    cluster.world.run(_LONG_MS)
    assert _controller_epoch(cluster) == 1
    assert _live(cluster) == [1, 2, 3, 4, 5]


def test_one_whose_advertised_address_leads_to_nobody_is_reached_when_that_is_mended() -> None:
    """It is told of everything that it was not told before."""
    cluster = Cluster(0, brokers=3)
    cluster.brokers[3].endpoint = cluster.brokers[3].endpoint._replace(host="later")
    cluster.start()
    assert cluster.world.run(20_000, lambda: all(broker.is_registered for broker in cluster.brokers.values()))
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.world.run(_LONG_MS)
    assert _live(cluster) == [1, 2, 3]
    cluster.network.listen("later", cluster.brokers[3])
    assert cluster.world.run(10_000, lambda: cluster.is_whole)
    assert _controller_epoch(cluster) == 1


def test_a_firewall_before_the_controller_deposes_nobody() -> None:
    story = Story()
    cluster, network = story.cluster, story.cluster.network
    epoch = _controller_epoch(cluster)
    network.reject(story[1].host)
    story.produce("m1", 2)
    # The others notice by the next thing that they ask it.
    story.let_pass(_LONG_MS)
    assert story.controller == 1
    assert _controller_epoch(cluster) == epoch
    assert story.state.leader == 2
    story.heal()


def test_a_firewall_before_a_leader_elects_nobody_while_its_session_lives() -> None:
    story = Story()
    network = story.cluster.network
    network.reject(story[2].host)
    story.let_pass(_LONG_MS)
    assert story.state.leader == 2
    assert _live(story.cluster) == [1, 2, 3, 4]
    story.heal()
    story.produce("m1", story.state.leader)


def test_a_firewall_before_every_broker_deposes_nobody() -> None:
    story = Story()
    epoch = _controller_epoch(story.cluster)
    for broker in story.cluster.brokers.values():
        story.cluster.network.reject(broker.host)
    story.let_pass(_LONG_MS)
    assert _controller_epoch(story.cluster) == epoch
    assert story.cluster.ensemble.children(znodes.BROKER_IDS) == ["1", "2", "3", "4"]
    story.heal()


def test_a_process_that_ended_is_still_noticed_at_once() -> None:
    """Long before its session ends: the connections to it were closed, and then refused."""
    story = Story()
    story[2].kill()
    story.wait(lambda: story.state.leader == 3, at_most_ms=200)
    story[1].kill()
    story.wait(lambda: story.controller in (3, 4), at_most_ms=200)
    story.heal()


def test_who_was_taken_for_dead_once_by_mistake_is_not_so_again() -> None:
    """Something between the brokers closes connections in the name of a broker that lives, a proxy for example."""
    story = Story()
    network = story.cluster.network

    def close_connections() -> None:
        network.stop_listening(story[2].host)
        story.let_pass(300)
        network.listen(story[2].host, story[2])
        story.wait(lambda: _live(story.cluster) == [1, 2, 3, 4])
        story.wait(lambda: story.cluster.is_whole)

    close_connections()
    leader = story.state.leader
    assert leader == 3
    epoch = story.state.leader_epoch
    close_connections()
    assert story.state.leader_epoch == epoch
    story.heal()
