"""Plans to turn swap off now, and to disable everything that turns it on at boot."""

from __future__ import annotations

from collections.abc import Sequence

from ..boot_files import fstab, swap, systemd
from ..facts.model import Swap, SwapSource
from ..steps import SwapOffStep
from .draft import Draft, SelectedKnob


def plan(draft: Draft, chosen: Sequence[SelectedKnob]) -> None:
    """Raises TuningError when a file that has to be edited cannot be read."""
    if not any(item.report.recommended == "none" for item in chosen):
        return
    for device in draft.facts.swaps or ():
        draft.live.append(SwapOffStep(device.device, device.kind, device.priority))
    if draft.options.persist:
        _off_at_boot(draft)


def _off_at_boot(draft: Draft) -> None:
    sources = [source for source in draft.facts.swap_sources if not source.masked]
    for source in sources:
        _turn_off(draft, source)
    for device in draft.facts.swaps or ():
        if device.device.startswith("/dev/zram") and all(source.form != "zram-generator" for source in sources):
            _mask_service_of_zram(draft, device)
        elif not sources:
            _mask_what_systemd_found(draft, device)


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
    else:
        draft.put(systemd.mask(swap.DPHYS_SERVICE), "", f"{swap.DPHYS_SERVICE} is masked: no swap at boot")


def _mask_service_of_zram(draft: Draft, device: Swap) -> None:
    units = [unit for unit in swap.ZRAM_SERVICES if draft.facts.unit(unit).path is not None]
    for unit in units:
        draft.put(systemd.mask(unit), "", f"{unit} is masked: no swap in compressed memory at boot")
    if not units:
        draft.warnings.append(_unexplained(device))


def _mask_what_systemd_found(draft: Draft, device: Swap) -> None:
    """Mask a swap partition that no file names: systemd-gpt-auto-generator found it by its partition type."""
    if device.kind != "partition" or draft.facts.systemd.version is None:
        draft.warnings.append(_unexplained(device))
        return
    unit = f"{systemd.escape_path(device.device)}.swap"
    draft.put(systemd.mask(unit), "", f"{unit} is masked: systemd finds swap partitions by itself")


def _unexplained(device: Swap) -> str:
    return f"no file was found that turns {device.device} on at boot: check after the next boot whether it is off"
