"""What is read from the output of a playbook."""

from __future__ import annotations

from tests.lab.operating import Played, differing

OUTPUT = """
PLAY [Provision hosts] *****************

TASK [Gathering Facts] *****************
ok: [node1]
ok: [node2]

TASK [storage : Make and mount the data disks] *****
changed: [node1]
+ a line of a diff
changed: [node2] => (item=/data/ssd1)
changed: [node2] => (item=/data/hdd1)

RUNNING HANDLER [time_sync : Restart] ****
changed: [node1]

PLAY RECAP *****************
node1                      : ok=3    changed=2    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0
node2                      : ok=2    changed=1    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0
"""


def played() -> Played:
    return Played(tuple((float(number), line) for number, line in enumerate(OUTPUT.splitlines())))


def test_changes_are_told_by_host_and_task() -> None:
    assert played().changed == 3
    assert played().changes == {
        ("node1", "storage : Make and mount the data disks"): 1,
        ("node2", "storage : Make and mount the data disks"): 2,
        ("node1", "time_sync : Restart"): 1,
    }
    assert played().diff == ["+ a line of a diff"]


def test_a_task_takes_until_the_next_begins() -> None:
    assert played().durations_s == {
        "storage : Make and mount the data disks": 6.0,
        "Gathering Facts": 4.0,
        "start": 3.0,
        "time_sync : Restart": 3.0,
    }


def test_what_differs_is_what_is_other_or_gone_or_new() -> None:
    before, after = {"kept": "1", "other": "1", "gone": "1"}, {"kept": "1", "other": "2", "new": "1"}
    assert differing(before, after) == {"gone": ("1", None), "new": (None, "1"), "other": ("1", "2")}
