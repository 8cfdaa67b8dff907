"""ZooKeeper as a source: watches, numbers of its servers, znodes read on demand; read-only."""
