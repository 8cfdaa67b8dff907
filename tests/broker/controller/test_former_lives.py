"""Leaders that come back as another process while there is no controller to notice."""

from __future__ import annotations

from tests.broker.controller.harness import ControllerCluster


def test_who_registered_since_does_not_lead_in_the_epoch_of_its_former_life() -> None:
    cluster = ControllerCluster(1, 2)
    cluster.make_topic("t", {0: [2, 1]})
    cluster.run(1000)
    before = cluster.state("t")
    assert before.leader == 2
    for broker_id in (1, 2):
        cluster.end_process(broker_id)
    broker = cluster.brokers[2]
    broker.told.clear()
    cluster.start(2)
    cluster.run(1000)
    after = cluster.state("t")
    assert after.leader == 2
    assert after.leader_epoch > before.leader_epoch
    # Followers may have more of the old epoch than its log does, so it must write nothing in it again.
    epochs = [
        state.leader_epoch
        for name, request in broker.told
        if name == "leader_and_isr"
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    assert epochs
    assert min(epochs) > before.leader_epoch
