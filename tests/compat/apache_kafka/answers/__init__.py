"""Every API of the table, asked in all its versions and in the wrong ways: a request and its whole answer on each line.

What differs from one run to the next is told by a name: ids of topics by the topic's, ids of members and fetch sessions
as they come, clocks, ports and directories by what they are. Of an error message it is told only that there is one, as
its words are each broker's own.
"""
