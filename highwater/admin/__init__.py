"""Commands on a cluster of any broker, over the protocol alone: topics, groups, ACLs, users, moves."""
