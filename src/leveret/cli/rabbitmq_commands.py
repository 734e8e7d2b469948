"""Counterparts of commands of rabbitmqctl and rabbitmq-diagnostics, for the error of an unknown command."""

from __future__ import annotations

COUNTERPARTS = {
    "add_user": "users create NAME",
    "add_vhost": "vhosts create NAME",
    "alarms": "status",
    "autocomplete": "completion SHELL",
    "await_startup": "wait",
    "change_password": "users password NAME",
    "check_alarms": "status",
    "check_running": "ping",
    "clear_operator_policy": "policies delete NAME --operator",
    "clear_password": "users password NAME --no-password",
    "clear_permissions": "permissions clear USER",
    "clear_policy": "policies delete NAME",
    "clear_topic_permissions": "permissions clear-topic USER",
    "close_all_connections": "connections close NAME",
    "close_connection": "connections close NAME",
    "cluster_status": "cluster status",
    "declare": "queues create NAME",
    "delete_queue": "queues delete NAME",
    "delete_user": "users delete NAME",
    "delete_vhost": "vhosts delete NAME",
    "erlang_version": "version",
    "export_definitions": "definitions export FILE",
    "forget_cluster_node": "cluster remove",
    "import_definitions": "definitions import FILE",
    "is_booting": "ping",
    "is_running": "ping",
    "join_cluster": "cluster join",
    "list_bindings": "bindings list",
    "list_channels": "channels list",
    "list_connections": "connections list",
    "list_consumers": "consumers list",
    "list_exchanges": "exchanges list",
    "list_operator_policies": "policies list --operator",
    "list_permissions": "permissions list",
    "list_policies": "policies list",
    "list_policies_that_match": "policies explain NAME",
    "list_queues": "queues list",
    "list_stream_consumers": "streams show NAME",
    "list_topic_permissions": "permissions list --topic",
    "list_user_topic_permissions": "permissions list --topic",
    "listeners": "overview",
    "list_user_permissions": "permissions list --user NAME",
    "list_users": "users list",
    "list_vhosts": "vhosts list",
    "node_health_check": "doctor",
    "observer": "top",
    "purge_queue": "queues purge NAME",
    "server_version": "version",
    "set_operator_policy": "policies set NAME PATTERN DEFINITION --operator",
    "set_permissions": "permissions set USER",
    "set_policy": "policies set NAME PATTERN DEFINITION",
    "set_topic_permissions": "permissions set-topic USER EXCHANGE",
    "set_user_tags": "users tags NAME --tag TAG",
    "start_app": "serve",
    "trace_off": "trace off",
    "trace_on": "trace on",
}

NO_COUNTERPART, NOT_NEEDED = "it has no counterpart in Leveret", "it is not needed in Leveret"
_REMARKS = {
    "stop the broker with SIGTERM, or 'systemctl stop leveret'": "stop stop_app shutdown",
    "stop the broker and delete its data directory": "reset force_reset",
    "change log_level in the config file, then reload: SIGHUP": "set_log_level",
    "change memory_high_watermark in the config file, then reload: SIGHUP": "set_vm_memory_high_watermark",
    "change disk_free_limit in the config file, then restart": "set_disk_free_limit",
    "disk_free_limit = 0 turns the alarm off": "enable_free_disk_space_monitoring disable_free_disk_space_monitoring",
    "the config file has no encrypted values; use LEVERET_DEFAULT_PASSWORD": (
        "encode decode encrypt_conf_value decrypt_conf_value list_ciphers list_hashes"
    ),
    "run 'leveret config show' with the flags and the environment of the broker": (
        "environment command_line_arguments os_env"
    ),
    "use PUT /api/cluster-name": "set_cluster_name",
    "use GET /api/whoami with that user and password, if it has a management tag": "authenticate_user",
    "use GET /api/nodes/NAME/memory": "memory_breakdown",
    "use leveret.auth.passwords.hash_password in Python": "hash_password",
    "use PUT, DELETE /api/user-limits/USER/NAME, or GET /api/user-limits": (
        "set_user_limits clear_user_limits list_user_limits"
    ),
    "run 'leveret permissions set' for each virtual host": "set_permissions_globally",
    "use PUT /api/vhosts/VHOST": "update_vhost_metadata set_vhost_tags",
    "use PUT, DELETE /api/vhost-limits/VHOST/NAME, or GET /api/vhost-limits": (
        "set_vhost_limits clear_vhost_limits list_vhost_limits"
    ),
    "use DELETE /api/connections/username/USER": "close_all_user_connections",
    "use PUT, GET, DELETE /api/parameters/COMPONENT/VHOST/NAME": "set_parameter list_parameters clear_parameter",
    "use PUT, GET, DELETE /api/global-parameters/NAME": (
        "set_global_parameter list_global_parameters clear_global_parameter"
    ),
    "use GET /api/health/checks/...": (
        "check_local_alarms check_port_listener check_protocol_listener check_virtual_hosts "
        "check_certificate_expiration check_if_node_is_quorum_critical check_if_node_is_mirror_sync_critical"
    ),
    "connect with a client, from its machine": "check_port_connectivity",
    "the log goes to standard error: journalctl -u leveret -f": "log_tail log_tail_stream log_location",
    "run openssl s_client -connect HOST:5671": "certificates cipher_suites tls_versions",
    "failed logins are in the log": (
        "list_node_auth_attempt_stats reset_node_auth_attempt_metrics enable_auth_attempt_source_tracking "
        "disable_auth_attempt_source_tracking"
    ),
    "use the tools of the operating system": "list_network_interfaces resolve_hostname resolver_info",
    NO_COUNTERPART: (
        "suspend_listeners resume_listeners eval eval_file exec force_gc hipe_compile change_cluster_node_type "
        "rename_cluster_node force_boot update_cluster_nodes force_standalone_khepri_boot await_online_nodes "
        "sync_queue cancel_sync_queue remove_classic_queue_mirroring_from_policies enable_vhost_deletion_protection "
        "disable_vhost_deletion_protection message_size_stats consume_event_stream"
    ),
    NOT_NEEDED: (
        "rotate_logs list_feature_flags enable_feature_flag list_deprecated_features restart_vhost reconcile_vhosts "
        "list_unresponsive_queues check_if_any_deprecated_features_are_used "
        "check_if_cluster_has_classic_queue_mirroring_policy check_for_quorum_queues_without_an_elected_leader "
        "metadata_store_status schema_info erlang_cookie_hash erlang_cookie_sources discover_peers maybe_stuck "
        "runtime_thread_stats remote_shell"
    ),
}
REMARKS = {name: remark for remark, names in _REMARKS.items() for name in names.split()}
"""Commands that have no counterpart among those of ``leveret``."""
