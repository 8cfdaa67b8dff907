"""Connections to other brokers, for one purpose: nobody else's requests are in its way."""

from __future__ import annotations

from collections.abc import Callable

from highwater.broker.cluster.peers import Endpoint, Peer, Peers


class Connections:
    def __init__(self, peers: Peers, endpoint_of: Callable[[int], Endpoint | None], client_id: str) -> None:
        """`endpoint_of` tells where a broker is now, at the inter-broker listener; None if it does not live."""
        self._peers = peers
        self._endpoint_of = endpoint_of
        self._client_id = client_id
        self._connected: dict[int, tuple[Endpoint, Peer]] = {}

    def to(self, broker_id: int) -> Peer | None:
        """None if the broker does not live, as far as is known here."""
        endpoint = self._endpoint_of(broker_id)
        if endpoint is None:
            return None
        known = self._connected.get(broker_id)
        if known is not None and known[0] == endpoint:
            return known[1]
        # A broker that moved has broken its old connection: what was under way there gets its failure from that.
        peer = self._peers.connect(endpoint, self._client_id)
        self._connected[broker_id] = endpoint, peer
        return peer

    def close(self) -> None:
        """Requests under way are called back no more."""
        for _, peer in self._connected.values():
            peer.close()
        self._connected.clear()
