#!/usr/bin/python
"""Whether services run, and whether they were started with what is wanted of them now."""

from __future__ import annotations

DOCUMENTATION = r"""
module: highwater_unit_state
short_description: Whether services run, and with what is wanted
description:
  - A unit that keeps, at each start, what it was started with (C(ExecStartPre=) with C(sha256sum) of its files into a
    file of its runtime directory) can be asked later whether that is still what is wanted.
  - So a restart that is due is found by any later run, whoever changed a file and whether or not the run that changed
    it came to its end; and a service that systemd started anew meanwhile is not restarted again.
  - Changes nothing.
options:
  units:
    description: The services to judge.
    type: list
    elements: dict
    required: true
    suboptions:
      unit:
        description: Name of the unit.
        type: str
        required: true
      record:
        description: Where it keeps what it was started with, as sha256sum prints it.
        type: path
        required: true
      files:
        description: What the record holds; paths, which may have wildcards.
        type: list
        elements: str
        required: true
      wanted:
        description: Texts that some of these files will have, by path; the others are wanted as they are.
        type: dict
        default: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
author:
  - The Highwater maintainers
"""

EXAMPLES = r"""
- name: Ask whether the broker has to be restarted
  highwater_unit_state:
    units:
      - unit: highwater-broker@main.service
        record: /run/highwater-broker/main/started
        files: [/etc/highwater/broker-main.properties, /etc/systemd/system/highwater-broker@.service.d/*.conf]
  register: state
"""

RETURN = r"""
units:
  description: For each unit, in their order, C(unit), C(is_running), C(main_pid), C(state) as systemd calls it, and
    C(stale), the files that are not as they were at its start; of a unit that runs.
  returned: always
  type: list
  elements: dict
"""
