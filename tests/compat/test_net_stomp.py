"""Net::Stomp, the client of Perl (Debian's libnet-stomp-perl): scripts do the work and print JSON, judged here."""

from __future__ import annotations

import json
import subprocess
from typing import Any
from urllib.parse import urlsplit

import pytest

import leveret
from leveret import Settings
from tests.support.programs import missing, require_program

QUIET = Settings(amqp_port=None, http_port=None, stomp_port=0, shutdown_timeout=0.5)
BEGINNING = """
use strict; use warnings; use Net::Stomp; use JSON::PP;
my $stomp = Net::Stomp->new({ hostname => $ARGV[0], port => $ARGV[1], timeout => 10 });
my $hello = $stomp->connect({ login => 'guest', passcode => 'guest' });
sub told { print encode_json(shift), "\\n" }
"""


pytestmark = pytest.mark.broker(QUIET)


def run_perl(broker: leveret.Broker, script: str) -> dict[str, Any]:
    perl = require_program("perl")
    if subprocess.run([perl, "-MNet::Stomp", "-e", "1"], capture_output=True, timeout=120).returncode:
        missing("Net::Stomp is not installed (`make foreign` installs it)")
    url = urlsplit(broker.stomp_url)
    command = [perl, "-e", BEGINNING + script, str(url.hostname), str(url.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def test_messages_go_there_and_back(broker: leveret.Broker) -> None:
    seen = run_perl(
        broker,
        """
        $stomp->subscribe({ destination => '/queue/perl', ack => 'client', 'activemq.prefetchSize' => 1 });
        my $sent = $stomp->send_with_receipt({ destination => '/queue/perl', body => 'one', colour => 'red' });
        $stomp->send({ destination => '/queue/perl', body => 'two', persistent => 'true' });
        my $first = $stomp->receive_frame;
        my $early = $stomp->can_read({ timeout => 0.3 });
        $stomp->ack({ frame => $first });
        my $second = $stomp->receive_frame;
        $stomp->ack({ frame => $second });
        $stomp->disconnect;
        told({ hello => $hello->command, sent => $sent ? 1 : 0, early => $early ? 1 : 0,
               bodies => [$first->body, $second->body], colour => $first->headers->{colour} });
        """,
    )
    expected = {"hello": "CONNECTED", "sent": 1, "early": 0, "bodies": ["one", "two"], "colour": "red"}
    assert seen == expected
    state = broker.call(lambda: broker.node.broker.vhosts["/"].queues["perl"])
    assert (state.ready, state.unacked) == (0, 0)


def test_a_transaction_is_all_or_nothing(broker: leveret.Broker) -> None:
    seen = run_perl(
        broker,
        """
        $stomp->subscribe({ destination => '/queue/tx', id => 'a' });
        my $kept = $stomp->send_transactional({ destination => '/queue/tx', body => 'kept' });
        my $frame = $stomp->receive_frame;
        $stomp->disconnect;
        told({ kept => $kept ? 1 : 0, body => $frame->body });
        """,
    )
    assert seen == {"kept": 1, "body": "kept"}


def test_questions_are_answered_through_a_temporary_queue(broker: leveret.Broker) -> None:
    seen = run_perl(
        broker,
        """
        $stomp->subscribe({ destination => '/queue/service', id => 's' });
        $stomp->send({ destination => '/queue/service', body => '2+2', 'reply-to' => '/temp-queue/me' });
        my $question = $stomp->receive_frame;
        $stomp->send({ destination => $question->headers->{'reply-to'}, body => '4' });
        my $answer = $stomp->receive_frame;
        $stomp->disconnect;
        told({ question => $question->body, answer => $answer->body, for => $answer->headers->{subscription} });
        """,
    )
    assert seen == {"question": "2+2", "answer": "4", "for": "/temp-queue/me"}
