"""Groups through which members, topics and subscriptions come and go; run it to have Kafka asked about some."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

from highwater.broker.group.assignors.assignor import AssignedMember, GroupToAssign, Target
from highwater.broker.group.assignors.known import ASSIGNORS
from highwater.broker.slices import run
from tests.broker.group.assignors.groups import member, shown, topic, topics


def lives(seed: int, assignor: str) -> Iterator[tuple[GroupToAssign, Target]]:
    """A group as it is asked about again and again, and its targets."""
    rng = Random(seed)
    names = [f"T{number}" for number in range(1, rng.randint(2, 6))]
    counts = {topic_id: rng.randint(1, 12) for name in names for topic_id in topics(name)}
    is_homogeneous = rng.random() < 0.5

    def subscription() -> str:
        return " ".join(names if is_homogeneous else rng.sample(names, rng.randint(0, len(names))))

    members: dict[str, AssignedMember] = {}
    for number in range(12):
        change = rng.random()
        if len(members) < 2 or change < 0.4:
            instance_id = f"i{number}" if rng.random() < 0.2 else None
            members[f"m{rng.randint(10, 99)}-{number}"] = AssignedMember(instance_id, topics(subscription()), {})
        elif change < 0.6:
            del members[rng.choice(sorted(members))]
        elif change < 0.8:
            counts[rng.choice(sorted(counts))] += rng.randint(1, 3)
        elif not is_homogeneous:
            member_id = rng.choice(sorted(members))
            members[member_id] = members[member_id]._replace(topics=topics(subscription()))
        group = GroupToAssign(dict(members), dict(counts), is_homogeneous)
        target = run(ASSIGNORS[assignor](group))
        yield group, target
        members = {id_: each._replace(assigned=target[id_]) for id_, each in members.items()}


def line(group: GroupToAssign) -> str:
    """A group as tests/compat/apache_kafka/Assignments.java reads it."""
    counts = " ".join(f"T{topic_id.int}:{count}" for topic_id, count in sorted(group.partition_counts.items()))
    fields = ["HOMOGENEOUS" if group.is_homogeneous else "HETEROGENEOUS", counts]
    for member_id, each in group.members.items():
        subscribed = " ".join(f"T{topic_id.int}" for topic_id in sorted(each.topics))
        fields += [member_id, each.instance_id or "", subscribed, shown(each.assigned)]
    return ";".join(fields)


def read(text: str) -> GroupToAssign:
    """The group of such a line."""
    kind, counts, *fields = text.split(";")
    members = {
        fields[at]: member(fields[at + 2], fields[at + 3], fields[at + 1] or None) for at in range(0, len(fields), 4)
    }
    pairs = (each.split(":") for each in counts.split())
    return GroupToAssign(members, {topic(name): int(count) for name, count in pairs}, kind == "HOMOGENEOUS")


def main(seeds: int) -> None:
    for seed in range(seeds):
        for assignor in ASSIGNORS:
            for group, _ in lives(seed, assignor):
                sys.stdout.write(line(group) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
