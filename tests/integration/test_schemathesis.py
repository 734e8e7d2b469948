"""S4-77: every endpoint against what its own description promises, with right and wrong requests made of it.

schemathesis makes requests of the OpenAPI document. Some are made by plan: each field and parameter at its bounds and
with each wrong type, one at a time. Others by chance: they fit the document, or break it somewhere. Most name things
that are there, so that they come further than a 404. Whatever is sent, the answer is no bug (5xx), has a documented
status and content type, and fits the documented schema.

The requests are the same each time. ``LEVERET_SCHEMATHESIS_EXAMPLES=500`` makes that many by chance for each endpoint,
others each time (``make fuzz-http``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from requests import Session
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import GenerationConfig
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from leveret import Broker
from leveret.api.openapi.document import DESCRIBED, Endpoint, document
from tests.support.matrix_objects import arrange
from tests.support.matrix_requests import ROWS_IN, parts_of
from tests.support.matrix_users import VHOST

EXAMPLES = int(os.environ.get("LEVERET_SCHEMATHESIS_EXAMPLES", "0"))
FEW = 2  # requests by chance to each endpoint, in every run
MOST_OF_A_QUERY = 20  # requests by plan to an endpoint without a body
EXISTING = {"queue": "q", "exchange": "x", "destination": "r", "consumer": "c", "vhost": VHOST}
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
SAYS_503 = {"Health"}  # tags of what answers 503 when something is wrong, which is no bug

SCHEMA = schemathesis.openapi.from_dict(document(Endpoint(*key.split(" "), "") for key in DESCRIBED))
BOUNDS = settings(
    max_examples=EXAMPLES or FEW,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink] if EXAMPLES else [Phase.generate],
    suppress_health_check=list(HealthCheck),
    verbosity=Verbosity.quiet,
)


pytestmark = pytest.mark.broker


@schemathesis.serializer("application/vnd.apache.arrow.stream")
def as_bytes(context: object, value: object) -> bytes:
    """What is no Arrow is one of the wrong requests; one that is comes with ``is_known``."""
    return value if isinstance(value, bytes) else repr(value).encode("utf-8", "replace")


def requests_of(key: str) -> st.SearchStrategy[Any]:
    """Right ones, and wrong ones where anything can be wrong."""
    method, path = key.split(" ")
    operation, described = SCHEMA[path][method], DESCRIBED[key]
    right = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    if not ("{" in path or described.query or described.body):
        return right
    return right | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)


@pytest.mark.parametrize("key", sorted(DESCRIBED))
@pytest.mark.feature("S4-77")
def test_each_field_right_and_wrong(key: str, asking: Asking) -> None:
    method, path = key.split(" ")
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
    made = SCHEMA.iter_coverage_cases(
        SCHEMA[path][method], generation_modes=modes, generation_config=GenerationConfig()
    )
    cases = [case for case in made if case.method == method]
    assert cases, key
    if DESCRIBED[key].body is None and not EXAMPLES:  # lists have the same parameters everywhere: some are enough
        cases = cases[:: -(-len(cases) // MOST_OF_A_QUERY)]
    for case in cases:
        asking.ask(key, case, is_known=True)


@pytest.mark.timeout(0 if EXAMPLES else 300)
@pytest.mark.parametrize("key", sorted(DESCRIBED))
@pytest.mark.feature("S4-77")
def test_by_chance(key: str, asking: Asking) -> None:
    @BOUNDS
    @given(case=requests_of(key), is_known=st.booleans())
    def ask(case: Any, is_known: bool) -> None:
        asking.ask(key, case, is_known=is_known)

    ask()


class Asking:
    """One user who sends the requests, all of whose answers are checked."""

    def __init__(self, broker: Broker, session: Session) -> None:
        self._broker = broker
        self._session = session

    def ask(self, key: str, case: Any, *, is_known: bool) -> None:
        arrange(self._broker)
        if is_known:
            self._name_what_is_there(key, case)
        # Those of the login are the session's.
        case.headers = {name: value for name, value in (case.headers or {}).items() if name != "Authorization"}
        case.cookies = {}
        answer = case.call(base_url=self._broker.http_url, session=self._session)
        may_be_ill = DESCRIBED[key].tag in SAYS_503
        case.validate_response(answer, checks=CHECKS if may_be_ill else [not_a_server_error, *CHECKS])

    def _name_what_is_there(self, key: str, case: Any) -> None:
        """What stands in a request by way of example; what a case is about is left as it is."""
        names = parts_of(key.partition(" ")[2], self._broker.node.broker.node_name)
        given = case.path_parameters or {}
        case.path_parameters = {
            part: quote(names[part], safe="") if len(str(text)) <= 1 else text for part, text in given.items()
        }
        for said in (case.query, case.body):
            if isinstance(said, dict):
                for field, name in EXISTING.items():
                    if isinstance(said.get(field), str) and len(said[field]) <= 1:
                        said[field] = name
        if isinstance(case.body, bytes):
            case.body = ROWS_IN


@pytest.fixture(scope="module")
def asking(module_broker: Broker) -> Iterator[Asking]:
    with Session() as session:
        session.auth = ("guest", "guest")
        session.trust_env = False
        yield Asking(module_broker, session)


def test_an_answer_that_is_not_described_is_found(broker: Broker) -> None:
    """The checks are able to fail: what is described here is not what the broker does."""
    narrow = document([Endpoint("GET", "/api/queues/{vhost}", "")])
    responses = narrow["paths"]["/api/queues/{vhost}"]["get"]["responses"]
    del responses["404"]
    responses["200"]["content"] = {"text/plain": {"schema": {"type": "string"}}}
    operation = schemathesis.openapi.from_dict(narrow)["/api/queues/{vhost}"]["GET"]
    for vhost, problem in (("nowhere", "Undocumented status code"), ("%2F", "Undocumented Content-Type")):
        case = operation.Case(path_parameters={"vhost": vhost})
        with pytest.raises(FailureGroup, match=problem):
            case.validate_response(case.call(base_url=broker.http_url, auth=("guest", "guest")), checks=CHECKS)
