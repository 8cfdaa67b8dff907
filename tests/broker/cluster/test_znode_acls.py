"""ACLs of znodes by path, as kafka.zk.ZkData 3.9 has them."""

from __future__ import annotations

import pytest

from highwater.broker.cluster.znode_acls import ZnodeAcl, znode_acl


@pytest.mark.parametrize(
    ("path", "acl"),
    [
        ("/", ZnodeAcl.READABLE),
        ("/brokers/ids/1", ZnodeAcl.READABLE),
        ("/config/topics/users", ZnodeAcl.READABLE),
        ("/consumers", ZnodeAcl.OPEN),
        ("/consumers/old", ZnodeAcl.READABLE),
        ("/config/users", ZnodeAcl.CLOSED),
        ("/config/users/ann/clients/app", ZnodeAcl.CLOSED),
        ("/config/brokers/<default>", ZnodeAcl.CLOSED),
        ("/config/brokers-of-mine", ZnodeAcl.CLOSED),
        ("/delegation_token/tokens", ZnodeAcl.CLOSED),
        ("/delegation_token", ZnodeAcl.READABLE),
        ("/kafka-acl/Topic/orders", ZnodeAcl.READABLE),
    ],
)
def test_kafkas_acls(path: str, acl: ZnodeAcl) -> None:
    assert znode_acl(path) is acl
