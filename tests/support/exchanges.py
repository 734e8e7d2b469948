"""Exchanges without a virtual host."""

from __future__ import annotations

from leveret.routing.types import ExchangeTypes

make_exchange = ExchangeTypes().make
