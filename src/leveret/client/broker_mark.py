"""By what a broker is known again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leveret.client.address import Address


@dataclass(slots=True, frozen=True)
class BrokerMark:
    host: str
    port: int
    cluster: str
    is_clustered: bool  # other addresses may belong to the same cluster, which has all queues in common

    @classmethod
    def of(cls, address: Address, properties: Mapping[str, object]) -> BrokerMark:
        is_leveret = str(properties.get("platform", "")).startswith("Leveret")
        return cls(address.host, address.port, str(properties.get("cluster_name", "")), not is_leveret)

    def may_be(self, other: BrokerMark) -> bool:
        return self.is_surely(other) or self.cluster == other.cluster

    def is_surely(self, other: BrokerMark) -> bool:
        """Two brokers of one machine may have one name; then the address decides."""
        if (self.host, self.port) == (other.host, other.port):
            return True
        return self.is_clustered and other.is_clustered and self.cluster == other.cluster
