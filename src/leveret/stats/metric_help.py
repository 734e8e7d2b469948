"""Help texts of the Prometheus metrics, by metric name without prefix: RabbitMQ's own wherever it has the metric."""

from __future__ import annotations

HELP = {
    "queue_messages_ready": "Messages ready to be delivered to consumers",
    "queue_messages_unacked": "Messages delivered to consumers but not yet acknowledged",
    "queue_messages": "Sum of ready and unacknowledged messages - total queue depth",
    "queue_consumers": "Consumers on a queue",
    "queue_process_memory_bytes": "Estimated memory used by the queue in bytes",
    "queue_messages_bytes": "Size in bytes of ready and unacknowledged messages",
    "queue_messages_ready_bytes": "Size in bytes of ready messages",
    "queue_messages_unacked_bytes": "Size in bytes of unacknowledged messages",
    "queue_messages_paged_out": "Messages paged out to disk",
    "queue_messages_paged_out_bytes": "Size in bytes of messages paged out to disk",
    "queue_get_total": "Total number of messages fetched with basic.get in automatic acknowledgement mode",
    "queue_get_ack_total": "Total number of messages fetched with basic.get in manual acknowledgement mode",
    "queue_get_empty_total": "Total number of times basic.get operations fetched no message",
    "queue_messages_delivered_total": (
        "Total number of messages delivered to consumers in automatic acknowledgement mode"
    ),
    "queue_messages_delivered_ack_total": (
        "Total number of messages delivered to consumers in manual acknowledgement mode"
    ),
    "queue_messages_redelivered_total": "Total number of messages redelivered to consumers",
    "queue_messages_acked_total": "Total number of messages acknowledged by consumers",
    "queue_messages_published_total": "Total number of messages published to queues",
    "connection_incoming_bytes_total": "Total number of bytes received on a connection",
    "connection_outgoing_bytes_total": "Total number of bytes sent on a connection",
    "connection_incoming_packets_total": "Total number of reads from the socket of a connection",
    "connection_outgoing_packets_total": "Total number of writes to the socket of a connection",
    "connection_channels": "Channels on a connection",
    "channel_consumers": "Consumers on a channel",
    "channel_messages_unacked": "Delivered but not yet acknowledged messages",
    "channel_messages_unconfirmed": "Published but not yet confirmed messages",
    "channel_messages_uncommitted": "Messages received in a transaction but not yet committed",
    "consumer_prefetch": "Limit of unacknowledged messages for each consumer",
    "channel_prefetch": "Total limit of unacknowledged messages for all consumers on a channel",
    "channel_messages_published_total": "Total number of messages published into an exchange on a channel",
    "channel_messages_confirmed_total": (
        "Total number of messages published into an exchange and confirmed on the channel"
    ),
    "channel_messages_unroutable_returned_total": (
        "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable"
    ),
    "channel_messages_unroutable_dropped_total": (
        "Total number of messages published as non-mandatory into an exchange and dropped as unroutable"
    ),
    "channel_messages_delivered_ack_total": (
        "Total number of messages delivered to consumers in manual acknowledgement mode"
    ),
    "channel_messages_delivered_total": (
        "Total number of messages delivered to consumers in automatic acknowledgement mode"
    ),
    "channel_messages_redelivered_total": "Total number of messages redelivered to consumers",
    "channel_messages_acked_total": "Total number of messages acknowledged by consumers",
    "channel_get_ack_total": "Total number of messages fetched with basic.get in manual acknowledgement mode",
    "channel_get_total": "Total number of messages fetched with basic.get in automatic acknowledgement mode",
    "channel_get_empty_total": "Total number of times basic.get operations fetched no message",
    "connections_opened_total": "Total number of connections opened",
    "connections_closed_total": "Total number of connections closed or terminated",
    "channels_opened_total": "Total number of channels opened",
    "channels_closed_total": "Total number of channels closed",
    "queues_declared_total": "Total number of queues declared",
    "queues_created_total": "Total number of queues created",
    "queues_deleted_total": "Total number of queues deleted",
    "process_open_fds": "Open file descriptors",
    "process_open_tcp_sockets": "Open TCP sockets",
    "process_resident_memory_bytes": "Resident memory of the process in bytes",
    "disk_space_available_bytes": "Disk space available in bytes",
    "process_max_fds": "Open file descriptors limit",
    "process_max_tcp_sockets": "Open TCP sockets limit",
    "resident_memory_limit_bytes": "Memory high watermark in bytes",
    "disk_space_available_limit_bytes": "Free disk space low watermark in bytes",
    "erlang_uptime_seconds": "Node uptime in seconds",
    "alarms_memory_used_watermark": "1 if the memory high watermark alarm is in effect",
    "alarms_free_disk_space_watermark": "1 if the free disk space alarm is in effect",
    "alarms_file_descriptor_limit": "1 if the file descriptor limit alarm is in effect",
    "connections": "Connections currently open",
    "channels": "Channels currently open",
    "consumers": "Consumers currently connected",
    "queues": "Queues available",
    "messages_routing_refused_total": (
        "Total number of messages not routed because routing them would exceed max_routing_steps"
    ),
    "loop_longest_turn_seconds": (
        "Longest time in the last 30 to 60 seconds that one event held the event loop, within 25 milliseconds"
    ),
    "sockets": "Accepted sockets of all protocols",
    "max_sockets": "Limit of open sockets",
    "unauthenticated_connections": "Open connections that have not authenticated yet",
    "connections_evicted_total": (
        "Total number of idle HTTP or unauthenticated connections closed in favour of a new connection"
    ),
    "connections_refused_total": (
        "Total number of connections closed at accept because no file descriptor was available"
    ),
    "global_messages_received_total": "Total number of messages received from publishers",
    "global_messages_received_confirm_total": (
        "Total number of messages received from publishers expecting confirmations"
    ),
    "global_messages_routed_total": "Total number of messages routed to queues or streams",
    "global_messages_confirmed_total": "Total number of messages confirmed to publishers",
    "global_messages_unroutable_returned_total": (
        "Total number of messages that could not be routed into a queue and were therefore returned to the publisher"
    ),
    "global_messages_unroutable_dropped_total": (
        "Total number of messages that could not be routed into a queue and were therefore dropped"
    ),
    "global_messages_delivered_total": "Total number of messages delivered to consumers",
    "global_messages_delivered_consume_manual_ack_total": (
        "Total number of messages delivered to consumers using basic.consume with manual acknowledgment"
    ),
    "global_messages_delivered_consume_auto_ack_total": (
        "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment"
    ),
    "global_messages_delivered_get_manual_ack_total": (
        "Total number of messages delivered to consumers using basic.get with manual acknowledgment"
    ),
    "global_messages_delivered_get_auto_ack_total": (
        "Total number of messages delivered to consumers using basic.get with automatic acknowledgment"
    ),
    "global_messages_get_empty_total": "Total number of times basic.get operations fetched no message",
    "global_messages_redelivered_total": "Total number of messages redelivered to consumers",
    "global_messages_acknowledged_total": "Total number of messages acknowledged by consumers",
    "global_publishers": "Publishers currently connected",
    "global_consumers": "Consumers currently connected",
    "stream_consumer_max_offset_lag": "Highest consumer offset lag of a stream in messages",
    "stream_reader_lag": "Messages of a stream that the consumer has not read yet",
    "spark_query_lag": "Messages that the Spark query has not read yet",
    "spark_query_rows_per_second": "Rows that the Spark query processes per second",
    "process_start_time_seconds": "Start time of the process in seconds since 1970-01-01 UTC",
    "process_cpu_seconds_total": "Total CPU time used by the process in seconds",
}
