"""What is done to the cluster, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.drills.cluster.drill import Drill
from tests.drills.cluster.network import CLIENTS
from tests.drills.cluster.systems import SESSION_TIMEOUT_MS, BrokerServer

_SESSION_S: Final = SESSION_TIMEOUT_MS / 1000
_LONGER_THAN_A_PROBE_S: Final = 40.0
"""After which our brokers have noticed that they do not reach another, also if there was nothing to tell it."""


@dataclass(frozen=True, slots=True)
class Story:
    tell: Callable[[Drill], None]
    what: str
    zookeepers: int = 1
    needs_root: bool = False
    log_dir_size_bytes: int = 0
    leaders: int = 3
    """Over how many brokers the leadership is spread; the others only follow."""
    properties: Mapping[str, str] = field(default_factory=dict)


def kill(is_controller: bool) -> Callable[[Drill], None]:
    def tell(drill: Drill) -> None:
        victim = drill.broker(is_controller=is_controller)
        drill.fault()
        victim.kill()
        drill.await_election(victim)
        drill.hold(3)
        drill.repair()
        drill.cluster.start(victim)

    return tell


def kill_follower(drill: Drill) -> None:
    leaders = set(drill.watcher.leaders())
    victim = next(broker for broker in drill.cluster.brokers.values() if broker.broker_id not in leaders)
    drill.fault()
    victim.kill()
    drill.hold(_SESSION_S + 2)
    drill.repair()
    drill.cluster.start(victim)


def kill_all(drill: Drill) -> None:
    drill.fault()
    for broker in drill.cluster.brokers.values():
        broker.kill()
    drill.repair()
    drill.cluster.start(*drill.cluster.brokers.values())


def pause(is_controller: bool) -> Callable[[Drill], None]:
    """Longer than its session lasts, so that it wakes up deposed and does not know it."""

    def tell(drill: Drill) -> None:
        victim = drill.broker(is_controller=is_controller)
        drill.fault()
        victim.pause()
        try:
            drill.await_election(victim)
            drill.hold(5)
        finally:
            drill.repair()
            victim.resume()

    return tell


def isolate(is_controller: bool) -> Callable[[Drill], None]:
    """Nobody reaches it, and it reaches nobody."""

    def tell(drill: Drill) -> None:
        victim = drill.broker(is_controller=is_controller)
        everybody = [*(b.name for b in drill.others(victim)), *(z.name for z in drill.cluster.zookeepers), CLIENTS]
        _cut(drill, victim, everybody, is_elected=True)

    return tell


def cut_from_zookeeper(is_controller: bool) -> Callable[[Drill], None]:
    """Clients and brokers still reach it: a leader that is none any more, and the only one not to know."""

    def tell(drill: Drill) -> None:
        victim = drill.broker(is_controller=is_controller)
        _cut(drill, victim, [server.name for server in drill.cluster.zookeepers], is_elected=True)

    return tell


def cut_from_brokers(is_controller: bool) -> Callable[[Drill], None]:
    """ZooKeeper and clients still reach it: nobody is elected, for nobody's session ends."""

    def tell(drill: Drill) -> None:
        victim = drill.broker(is_controller=is_controller)
        _cut(drill, victim, [broker.name for broker in drill.others(victim)], is_elected=False)

    return tell


def reject_brokers(is_controller: bool) -> Callable[[Drill], None]:
    """Its process and its session live, and a refused connection looks as it does when nobody listens."""

    def tell(drill: Drill) -> None:
        victim = drill.broker(is_controller=is_controller)
        host, port = victim.address
        epoch, controller = drill.cluster.controller_epoch(), drill.cluster.controller_id()
        drill.fault()
        drill.cluster.network.reject(victim.name, port, [broker.name for broker in drill.others(victim)])
        try:
            drill.hold(_LONGER_THAN_A_PROBE_S)
            now = drill.cluster.controller_epoch(), drill.cluster.controller_id()
        finally:
            drill.repair()
            drill.cluster.network.heal()
        drill.require(now == (epoch, controller), f"the controller changed from {(epoch, controller)} to {now}")
        logs = [broker.log.read_text(errors="replace") for broker in drill.others(victim)]
        reported = sum(f"broker {victim.broker_id} cannot be reached at {host}:{port}" in log for log in logs)
        drill.remark(f"{reported} brokers reported that broker {victim.broker_id} cannot be reached at {host}:{port}")

    return tell


def _cut(drill: Drill, victim: BrokerServer, from_whom: list[str], *, is_elected: bool) -> None:
    drill.fault()
    drill.cluster.network.cut(victim.name, from_whom)
    try:
        if is_elected:
            drill.await_election(victim)
            drill.hold(5)
        else:
            drill.hold(15)
    finally:
        drill.repair()
        drill.cluster.network.heal()


def fill_disk(drill: Drill) -> None:
    """Of a leader: whatever it does about it, it is started again when there is room, if it is not running."""
    victim = drill.broker(is_controller=False)
    ballast = victim.log_dir / "ballast"
    drill.fault()
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 20))
        except OSError:
            pass
    drill.hold(10)
    survived = victim.is_running
    ballast.unlink()
    drill.repair()
    drill.remark(f"the broker {'went on' if survived else 'ended'}")
    if not survived:
        drill.cluster.start(victim)


def restart_one_after_another(drill: Drill) -> None:
    drill.fault()
    for broker in drill.cluster.brokers.values():
        broker.stop()
        drill.hold(1)
        drill.repair()
        drill.cluster.start(broker)
        drill.await_full_isr()


def restart_zookeeper(drill: Drill) -> None:
    """Shorter than a session lasts: nobody is deposed."""
    (zookeeper,) = drill.cluster.zookeepers
    drill.fault()
    zookeeper.kill()
    drill.hold(3)
    drill.repair()
    zookeeper.start()


def lose_quorum(drill: Drill) -> None:
    """Longer than a session lasts; sessions are only counted while there is a quorum."""
    victims = drill.cluster.zookeepers[1:]
    drill.fault()
    for zookeeper in victims:
        zookeeper.kill()
    drill.hold(_SESSION_S + 4)
    drill.repair()
    for zookeeper in victims:
        zookeeper.start()


def shut_down(is_controller: bool, is_clean: bool) -> Callable[[Drill], None]:
    """The replication scenarios of Kafka's own system tests: it goes and stays away, while the rest goes on."""

    def tell(drill: Drill) -> None:
        victim = drill.broker(is_controller=is_controller)
        drill.fault()
        if is_clean:
            victim.stop()
        else:
            victim.kill()
        drill.await_election(victim)
        drill.hold(10)
        drill.repair()
        drill.cluster.start(victim)

    return tell


def bounce(is_controller: bool, is_clean: bool, times: int = 3) -> Callable[[Drill], None]:
    """The same, again and again, whoever it then is."""

    def tell(drill: Drill) -> None:
        drill.fault()
        for _ in range(times):
            victim = drill.broker(is_controller=is_controller)
            if is_clean:
                victim.stop()
            else:
                victim.kill()
            drill.repair()
            drill.cluster.start(victim)
            drill.await_full_isr()

    return tell


def _matrix() -> dict[str, Story]:
    stories = {}
    for who, is_controller in (("leader", False), ("controller", True)):
        for how, is_clean in (("clean", True), ("hard", False)):
            name = f"{how} {'stop' if is_clean else 'kill'} of a {who}"
            stories[f"{how}-shutdown-{who}"] = Story(
                shut_down(is_controller, is_clean), f"{name}, which stays away for 10 s"
            )
            stories[f"{how}-bounce-{who}"] = Story(
                bounce(is_controller, is_clean), f"{name}, started again at once, three times over"
            )
    return stories


_SMALL_DISK: Final = 256 * 1024 * 1024

STORIES: Final[Mapping[str, Story]] = {
    "kill-leader": Story(kill(False), "kill -9 of a leader; started again 3 s after the election"),
    "kill-controller": Story(kill(True), "kill -9 of the controller, which leads too"),
    "kill-follower": Story(kill_follower, "kill -9 of a broker that leads nothing", leaders=2),
    "kill-all": Story(kill_all, "kill -9 of all brokers at once"),
    "pause-leader": Story(pause(False), "SIGSTOP of a leader until 5 s after its session and leadership ended"),
    "pause-controller": Story(pause(True), "the same of the controller"),
    "isolate-leader": Story(isolate(False), "a leader cut off from everybody", needs_root=True),
    "isolate-controller": Story(isolate(True), "the controller cut off from everybody", needs_root=True),
    "leader-without-zookeeper": Story(
        cut_from_zookeeper(False), "a leader cut off from ZooKeeper alone", needs_root=True
    ),
    "controller-without-zookeeper": Story(
        cut_from_zookeeper(True), "the controller cut off from ZooKeeper alone", needs_root=True
    ),
    "leader-without-brokers": Story(
        cut_from_brokers(False), "a leader cut off from the other brokers for 15 s", needs_root=True
    ),
    "controller-without-brokers": Story(
        cut_from_brokers(True), "the controller cut off from the other brokers for 15 s", needs_root=True
    ),
    "leader-behind-firewall": Story(
        reject_brokers(False), "a firewall before a leader that rejects the other brokers for 40 s", needs_root=True
    ),
    "controller-behind-firewall": Story(reject_brokers(True), "the same before the controller", needs_root=True),
    "disk-full": Story(fill_disk, "a leader's disk full for 10 s", needs_root=True, log_dir_size_bytes=_SMALL_DISK),
    "rolling-restart": Story(restart_one_after_another, "every broker stopped and started, one after another"),
    "zookeeper-restart": Story(restart_zookeeper, "kill -9 of the only ZooKeeper, back after 3 s"),
    "quorum-loss": Story(lose_quorum, "two of three ZooKeepers away for longer than a session", zookeepers=3),
    **_matrix(),
}
QUICK: Final = ("kill-leader", "pause-controller", "rolling-restart")
