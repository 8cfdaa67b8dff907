#!/usr/bin/python
"""Documents the action plugin of this name, where Ansible looks for it."""

DOCUMENTATION = r"""
module: highwater_wheels
short_description: Bring wheels to a host, those that it lacks and in one piece
description:
  - Compares the wheels of a directory on the controller with those on the host by their content, packs what the host
    lacks into one file, brings that and unpacks it. Each file that is sent alone would cost a second.
  - A wheel that was cut short is brought again.
  - All of it is an action plugin; the host needs Python and tar.
options:
  directory:
    description: Of the wheels, on the controller.
    type: path
    required: true
  dest:
    description: Where they are to be on the host; the directory has to be there.
    type: path
    required: true
extends_documentation_fragment: ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
author:
  - The Highwater maintainers
"""

EXAMPLES = r"""
- name: Copy the missing wheels
  highwater_wheels:
    directory: ~/.cache/highwater/wheelhouse/0.1.0-0123456789ab-python3.11-x86_64
    dest: /opt/highwater/wheels
"""

RETURN = r"""
wheels:
  description: File names of those that the host lacked.
  returned: always
  type: list
  elements: str
"""
