"""What several rooms share; needs the standard library alone and no room.

It is shipped with every room, to Spark's executors and by Ansible too. So its modules import each other relatively.
"""
