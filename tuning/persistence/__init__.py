"""Where a setting is kept over a reboot: one module for each kind of file.

Writers are pure: the present text of a file and what is wanted in, the wanted text out. A file that is ours alone is
written as a whole, with what somebody else put into it kept; /etc/fstab is edited in place. None stands for a file that
is not there, or is no longer needed.
"""

from __future__ import annotations

from typing import Final

HEADER: Final = (
    "# Managed by Highwater: `highwater tune apply` sets these lines, `highwater tune rollback` takes them back.\n"
)
