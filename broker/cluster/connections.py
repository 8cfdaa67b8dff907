"""Connections to other brokers for one purpose, so that its requests wait for no others."""

from __future__ import annotations

from collections.abc import Callable

from highwater.broker.cluster.peers import Endpoint, Peer, Peers


class Connections:
    def __init__(self, peers: Peers, endpoint_of: Callable[[int], Endpoint | None], client_id: str) -> None:
        """`endpoint_of` returns the inter-broker endpoint of a broker; None if the broker is not alive."""
        self._peers = peers
        self._endpoint_of = endpoint_of
        self._client_id = client_id
        self._connected: dict[int, tuple[Endpoint, Peer]] = {}

    def to(self, broker_id: int) -> Peer | None:
        """Return the connection to a broker; None if the metadata has no such live broker."""
        endpoint = self._endpoint_of(broker_id)
        if endpoint is None:
            return None
        known = self._connected.get(broker_id)
        if known is not None and known[0] == endpoint:
            return known[1]
        # The broker has a new address: requests on its old connection fail when that connection breaks.
        peer = self._peers.connect(endpoint, self._client_id, name=f"broker {broker_id}")
        self._connected[broker_id] = endpoint, peer
        return peer

    def close(self) -> None:
        """Close the connections. Pending requests get no callback."""
        for _, peer in self._connected.values():
            peer.close()
        self._connected.clear()
