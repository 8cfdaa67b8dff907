"""Files that persist settings over a reboot: one module for each kind of file.

Writers are pure functions from the current text of a file and the wanted settings to the new text. Files of Highwater
are written as a whole, but lines of others in them are kept; /etc/fstab is edited in place. None stands for a file that
does not exist, or that is no longer needed.
"""

from __future__ import annotations

from typing import Final

HEADER: Final = (
    "# Managed by Highwater: `highwater tune apply` sets these lines, `highwater tune rollback` takes them back.\n"
)
