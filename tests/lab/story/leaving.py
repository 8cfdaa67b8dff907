"""The way back: settings as they were, then nothing of ours left."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.lab.operating import differing
from tests.lab.story.scene import Scene

_TAKE_ALL_AWAY: Final = '{"teardown_confirmed": true, "teardown_remove_data": true, "teardown_unmount": true}'


def rollback(scene: Scene) -> str:
    scene.play("rollback.yml")
    count = 0
    for name, settings in scene.each(scene.settings, scene.hosts).items():
        before = scene.before[name].settings
        now = {key: value for key, value in settings.items() if key in before}
        assert (left := differing(before, now)) == {}, f"{name}: {left}"
        count += len(before)
    return f"{count} settings as they were"


def teardown(scene: Scene) -> str:
    scene.play("teardown.yml", "-e", _TAKE_ALL_AWAY)
    counts = {"files": 0, "packages": 0}
    for name, now in scene.each(scene.seen).items():
        # Settings are rollback's, and modules that were loaded since have some more.
        left = replace(now, settings=scene.before[name].settings).differing(scene.before[name])
        assert left == {}, f"left on {name}: {left}"
        counts["files"] += len(now.files)
        counts["packages"] += len(now.residue["packages"].splitlines())
    again = scene.play("teardown.yml", "-e", _TAKE_ALL_AWAY)
    assert again.changed == 0, f"changed again: {sorted(task for _, task in again.changes)}"
    told = ", ".join(f"{count} {what}" for what, count in counts.items())
    return f"{told}, and units, users, mounts as they were on {len(scene.before)} hosts; the second run changed nothing"
