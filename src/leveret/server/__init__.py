"""Sockets, TLS, admission of connections, heartbeats, logins, and threads for the disk."""
