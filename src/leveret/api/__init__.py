"""RabbitMQ's management API: one resource, one file; views turn objects into JSON, openapi describes the endpoints."""
