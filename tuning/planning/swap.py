"""Swap off: now, and in all the forms that turn it on again at boot."""

from __future__ import annotations

from collections.abc import Sequence

from ..facts import Swap, SwapSource
from ..persistence import fstab, swap, systemd
from ..steps import SwapOffStep
from .draft import Chosen, Draft


def plan(draft: Draft, chosen: Sequence[Chosen]) -> None:
    """Raises TuningError when a file that has to be edited cannot be read."""
    if not any(item.report.recommended == "none" for item in chosen):
        return
    for device in draft.facts.swaps or ():
        draft.live.append(SwapOffStep(device.device, device.kind, device.priority))
    if draft.options.keep:
        _off_at_boot(draft)


def _off_at_boot(draft: Draft) -> None:
    sources = [source for source in draft.facts.swap_sources if not source.masked]
    for source in sources:
        _turn_off(draft, source)
    for device in draft.facts.swaps or ():
        _warn_if_unexplained(draft, device, sources)


def _turn_off(draft: Draft, source: SwapSource) -> None:
    if source.form == "fstab":
        text = draft.text(fstab.PATH) or ""
        draft.put(fstab.PATH, fstab.commented_out(text, fstab.swap_entries(text)), "no swap at boot")
    elif source.form == "systemd":
        unit = source.path.rpartition("/")[2]
        draft.put(systemd.mask(unit), "", f"{unit} is masked: no swap at boot")
    elif source.form == "zram-generator":
        devices = swap.zram_devices(draft.facts.files.read(source.path).text or "")
        drop_in = swap.without_zram(draft.text(swap.ZRAM_FILE), devices)
        draft.put(swap.ZRAM_FILE, drop_in, "no swap in compressed memory at boot")
        draft.pending.append("the memory of zram devices is free when they are removed: at the next boot")
    else:
        draft.put(systemd.mask(swap.DPHYS_SERVICE), "", f"{swap.DPHYS_SERVICE} is masked: no swap at boot")


def _warn_if_unexplained(draft: Draft, device: Swap, sources: Sequence[SwapSource]) -> None:
    """A swap partition that nothing names is turned on by systemd-gpt-auto-generator, or by a script."""
    if sources:
        return
    if device.kind == "partition" and draft.facts.systemd.version is not None:
        unit = f"{systemd.escape_path(device.device)}.swap"
        draft.put(systemd.mask(unit), "", f"{unit} is masked: systemd finds swap partitions by itself")
        return
    draft.warnings.append(f"no file was found that turns {device.device} on at boot; look for it after the next one")
