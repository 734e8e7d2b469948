"""Errors of the JMS-style API.

ClientError
└── JmsError
    ├── IllegalState        a call that does not fit the state: closed, not transacted, receive() beside a listener
    ├── InvalidDestination  a destination that cannot be used in this way
    ├── InvalidSelector     an invalid selector, or one that the broker or the destination does not support
    ├── MessageFormatError   a body, a property or a field that a message cannot have
    ├── MessageNotWriteable  a change of a received message that was not cleared
    └── Unsupported          a feature that this broker does not have
"""

from __future__ import annotations

from leveret.client.errors import ClientError


class JmsError(ClientError):
    """Root of the errors of the JMS-style API."""


class IllegalState(JmsError):
    pass


class InvalidDestination(JmsError):
    pass


class InvalidSelector(JmsError):
    pass


class MessageFormatError(JmsError):
    pass


class MessageNotWriteable(JmsError):
    pass


class Unsupported(JmsError):
    pass
