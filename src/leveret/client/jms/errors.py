"""What goes wrong for an application that uses the client as JMS's users know it.

ClientError
└── JmsError
    ├── IllegalState        a call that does not fit the state: closed, not transacted, receive() beside a listener
    ├── InvalidDestination  a destination that cannot be used so
    ├── InvalidSelector     a selector that the broker, or the place where it is given, cannot have
    ├── MessageFormatError   a body, a property or a field that a message cannot have
    ├── MessageNotWriteable  a change of what was received and not cleared
    └── Unsupported          what this broker does not offer
"""

from __future__ import annotations

from leveret.client.errors import ClientError


class JmsError(ClientError):
    """Root of what only this face of the client runs into."""


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
