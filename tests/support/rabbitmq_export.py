"""Definitions as RabbitMQ 3.10 exports them, with one of each kind."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

Definitions = dict[str, Any]

SALT = b"\x8a\x01\xff\x10"
LOGIN = ("shop", "open sesame")


def rabbitmq_hash(password: str, algorithm: str = "sha256") -> str:
    return base64.b64encode(SALT + hashlib.new(algorithm, SALT + password.encode()).digest()).decode()


def rabbitmq_export() -> Definitions:
    return {
        "rabbit_version": "3.10.8",
        "rabbitmq_version": "3.10.8",
        "product_name": "RabbitMQ",
        "product_version": "3.10.8",
        "users": [
            {
                "name": LOGIN[0],
                "password_hash": rabbitmq_hash(LOGIN[1]),
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": ["management"],
                "limits": {"max-channels": 10, "max-connections": -1},
            },
            {
                "name": "certificate",
                "password_hash": "",
                "hashing_algorithm": "rabbit_password_hashing_sha512",
                "tags": [],
                "limits": {},
            },
        ],
        "vhosts": [{"name": "/"}, {"name": "orders"}],
        "permissions": [{"user": LOGIN[0], "vhost": "orders", "configure": "", "write": ".*", "read": "^in"}],
        "topic_permissions": [
            {"user": LOGIN[0], "vhost": "orders", "exchange": "amq.topic", "write": ".*", "read": "a"}
        ],
        "parameters": [
            {"value": {"max-queues": 11}, "vhost": "orders", "component": "vhost-limits", "name": "limits"},
            {"value": [], "vhost": "/", "component": "vhost-limits", "name": "limits"},
            {
                "value": {"pattern": "^a", "definition": {"max-length": 5}, "priority": 0, "apply-to": "all"},
                "vhost": "orders",
                "component": "operator_policy",
                "name": "bounded",
            },
        ],
        "global_parameters": [{"name": "internal_cluster_id", "value": "rabbitmq-cluster-id-1"}],
        "policies": [
            {
                "vhost": "orders",
                "name": "expiring",
                "pattern": "^tmp",
                "apply-to": "queues",
                "definition": {"message-ttl": 1000, "ha-mode": "all"},
                "priority": 3,
            }
        ],
        "queues": [
            {"name": "in", "vhost": "orders", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}},
            {
                "name": "log",
                "vhost": "orders",
                "durable": True,
                "auto_delete": False,
                "arguments": {"x-queue-type": "quorum"},
            },
        ],
        "exchanges": [
            {
                "name": "events",
                "vhost": "orders",
                "type": "topic",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {"alternate-exchange": "amq.fanout"},
            }
        ],
        "bindings": [
            {
                "source": "events",
                "vhost": "orders",
                "destination": "in",
                "destination_type": "queue",
                "routing_key": "order.#",
                "arguments": {"z": 1},
            },
            {
                "source": "amq.fanout",
                "vhost": "orders",
                "destination": "events",
                "destination_type": "exchange",
                "routing_key": "",
                "arguments": {},
            },
        ],
    }
