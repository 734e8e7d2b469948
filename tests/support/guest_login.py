"""Settings of ``leveret.Broker()`` with the login guest / guest, for tests that write it out."""

from __future__ import annotations

from dataclasses import replace

import leveret

GUEST_LOGIN = replace(leveret.Broker().settings, default_password="guest")
