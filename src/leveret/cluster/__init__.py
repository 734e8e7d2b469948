"""The replicated log on NATS JetStream: connections, checks of the engine, appending, reading, leases."""
