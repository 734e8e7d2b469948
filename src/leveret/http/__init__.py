"""HTTP: connections, logins and sessions, bodies, errors, lists; WebSockets and tunnels for AMQP and STOMP."""
