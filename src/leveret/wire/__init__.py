"""The wire format of AMQP: fields, properties, methods (generated), frames, content, grammar."""
