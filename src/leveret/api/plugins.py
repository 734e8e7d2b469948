"""Plugins: features that RabbitMQ ships as plugins and Leveret has built in. List, enable, disable.

A PUT enables a plugin, a DELETE disables it. Both return the plugin, with the exchanges and policies that use it: those
of a disabled plugin continue to work.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of
from leveret.broker.plugins import PLUGINS, Plugin, find_plugin, uses_keys, uses_type
from leveret.broker.vhost import Vhost
from leveret.http.authorization import name_of
from leveret.http.durability import wait_until_durable
from leveret.http.listings import object_response
from leveret.http.responses import json_response
from leveret.http.roles import ADMINISTRATOR, refuse_unless_role
from leveret.http.rows import Row, made_rows
from leveret.http.time_slice import TimeSlice

PLUGIN_ROWS = made_rows(
    *("name", "rabbitmq_name", "description", "enabled", "switchable", "bound_to", "exchange_types", "policy_keys"),
    *("exchanges", "policies", "in_use"),
)


def routes(context: ApiContext) -> list[Route]:
    api = _Plugins(context)
    return [
        Route("/api/plugins", api.list_all),
        *routes_of("/api/plugins/{name}", GET=api.show, PUT=api.enable, DELETE=api.disable),
    ]


class _Plugins(Endpoints):
    async def list_all(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        return await self._listed(request, await self._rows(PLUGINS), PLUGIN_ROWS)

    async def show(self, request: Request) -> Response:
        return object_response(request, await self._row(self._asked(request)))

    async def enable(self, request: Request) -> Response:
        plugin = self._asked(request)
        self._broker.plugins.enable(plugin)
        return await self._switched(plugin)

    async def disable(self, request: Request) -> Response:
        plugin = self._asked(request)
        self._broker.plugins.disable(plugin)
        return await self._switched(plugin)

    def _asked(self, request: Request) -> Plugin:
        refuse_unless_role(request, ADMINISTRATOR)
        return find_plugin(name_of(request, "name"))

    async def _switched(self, plugin: Plugin) -> Response:
        await wait_until_durable(self._broker)
        return json_response(await self._row(plugin))

    async def _row(self, plugin: Plugin) -> Row:
        return (await self._rows([plugin]))[0]

    async def _rows(self, plugins: Iterable[Plugin]) -> list[Row]:
        """Rows of plugins, with the exchanges and policies that use each one, found in time slices."""
        rows = {plugin: self._facts(plugin) for plugin in plugins}
        time_slice = TimeSlice()
        for vhost in [*self._broker.vhosts.values()]:
            for exchange in [*vhost.exchanges.values()]:
                for plugin, row in rows.items():
                    if uses_type(plugin, exchange):
                        row["exchanges"].append(_named(vhost, exchange.name))
                await time_slice.pause_if_over()
            for policy in vhost.policies.in_order():
                for plugin, row in rows.items():
                    if uses_keys(plugin, policy):
                        row["policies"].append(_named(vhost, policy.name))
                await time_slice.pause_if_over()
        return [row | {"in_use": len(row["exchanges"]) + len(row["policies"])} for row in rows.values()]

    def _facts(self, plugin: Plugin) -> Row:
        return {
            "name": plugin.name,
            "rabbitmq_name": plugin.rabbitmq_name,
            "description": plugin.description,
            "enabled": self._broker.plugins.is_enabled(plugin),
            "switchable": plugin.is_switchable,
            "bound_to": plugin.bound_to,
            "exchange_types": sorted(plugin.exchange_types),
            "policy_keys": sorted(plugin.policy_keys),
            "exchanges": [],
            "policies": [],
        }


def _named(vhost: Vhost, name: str) -> Row:
    return {"vhost": vhost.name, "name": name}
