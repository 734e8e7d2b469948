"""Which part of a body is masked, and that everything else stays as it is."""

from __future__ import annotations

import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.errors import ConfigError
from leveret.spark.jobs.json_spans import DEEPEST, NotJson, parsed
from leveret.spark.jobs.mask_rules import Mask, NotMasked, steps_of

KEY = b"a key of sixteen bytes or more"


def digest(text: str) -> str:
    return hmac.new(KEY, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def masked(body: str, **paths: str) -> str:
    rules = [(action, path) for action, given_ in paths.items() for path in given_.split()]
    return Mask(rules, KEY).masked(body.encode("utf-8", "surrogatepass")).decode()


H = digest("a@b")
CASES: list[tuple[str, dict[str, str], str]] = [
    ('{"c": {"e": "a@b", "n": 1.50}}', {"hash": "c.e"}, f'{{"c": {{"e": "{H}", "n": 1.50}}}}'),
    # The same string with another spelling of its key and its value has the same hash.
    ('{"\\u0063":{"e":"a\\u0040b"}}', {"hash": "c.e"}, f'{{"\\u0063":{{"e":"{H}"}}}}'),
    ('{"e": 12345678901234567890.10}', {"hash": "e"}, f'{{"e": "{digest("12345678901234567890.10")}"}}'),
    ('{"e": true, "f": null}', {"hash": "e f"}, f'{{"e": "{digest("true")}", "f": null}}'),
    ('{"e": "\\ud800"}', {"hash": "e"}, f'{{"e": "{digest(chr(0xD800))}"}}'),
    ('[{"e": "a@b"}, {}, {"e": "a@b"}]', {"hash": "[*].e"}, f'[{{"e": "{H}"}}, {{}}, {{"e": "{H}"}}]'),
    ('{"l": [["a@b", 1e400], []]}', {"hash": "l[*][*]"}, f'{{"l": [["{H}", "{digest("1e400")}"], []]}}'),
    ('{ "a" : 1 , "b" : 2 , "c" : 3 }', {"remove": "a"}, '{ "b" : 2 , "c" : 3 }'),
    ('{ "a" : 1 , "b" : 2 , "c" : 3 }', {"remove": "b"}, '{ "a" : 1 , "c" : 3 }'),
    ('{ "a" : 1 , "b" : 2 , "c" : 3 }', {"remove": "c"}, '{ "a" : 1 , "b" : 2 }'),
    ('{ "a" : 1 , "b" : 2 , "c" : 3 }', {"remove": "a b"}, '{ "c" : 3 }'),
    ('{ "a" : 1 , "b" : 2 , "c" : 3 }', {"remove": "b c"}, '{ "a" : 1 }'),
    ('{ "a" : 1 , "b" : 2 , "c" : 3 }', {"remove": "a c", "redact": "b"}, '{ "b" : "***" }'),
    ('{ "a" : 1 , "b" : 2 }', {"remove": "a b"}, "{}"),
    ('{"l": [{"x": 1}, 2]}', {"remove": "l[*]"}, '{"l": []}'),
    ('{"l": [{"x": 1}, 2], "m": null}', {"redact": "l m"}, '{"l": "***", "m": "***"}'),
    (
        '{"a.b": {"[*]": 1, "\\"": 2}}',
        {"remove": '["a.b"]["[*]"]', "redact": '["a.b"]["\\""]'},
        '{"a.b": {"\\"": "***"}}',
    ),
    ('{"$t": 1, "é": 2}', {"redact": "$.$t é"}, '{"$t": "***", "é": "***"}'),
]


@pytest.mark.parametrize(("body", "paths", "expected"), CASES)
def test_the_fields_of_the_paths_are_masked(body: str, paths: dict[str, str], expected: str) -> None:
    assert masked(body, **paths) == expected


SAME = [
    '{"n": 1.10, "big": 123456789012345678901234567890, "e": 1E+400}',
    " [ ] ",
    "{}",
    "null",
    '{"c": null}',
    '{"c":{}}',
]


@pytest.mark.parametrize("body", SAME)
def test_a_body_without_the_fields_is_the_same_bytes(body: str) -> None:
    paths = {"hash": "[*].e", "remove": "[*].c"} if "[" in body else {"hash": "c.e", "remove": "c.d"}
    assert masked(body, **paths) == body


REFUSED = [
    (b"", "the body is not JSON: a value is missing or unknown, at character 0"),
    (b"no json", "not JSON"),
    (b'{"c": {"e": 1}} {}', "text after the value, at character 16"),
    (b'{"c": {"e": 1}, "x": [{"e": 1, "\\u0065": 2}]}', "the same key twice, at character 31"),
    (b'{"c": NaN}', "not JSON"),
    (b'{"c": 01}', "} is missing"),
    (b"{'c': 1}", "a key must be a string"),
    (b'{"c": 1,}', "a key must be a string"),
    (b'{"c" 1}', ": is missing"),
    (b'{"c": "\n"}', "not JSON"),
    (b'{"c": "\\x"}', "not JSON"),
    (b"\xef\xbb\xbf{}", "a byte order mark"),
    (b'{"c": "\xff"}', "not UTF-8, at byte 7"),
    ('{"c": 1}'.encode("utf-16-le"), "not JSON"),
    (b"[" * 100_000, f"deeper than {DEEPEST} levels"),
    (b'"text"', "the body is not an object: it is of type string"),
    (b'[{"c": 1}]', "the body is not an object: it is of type array"),
    (b'{"c": "a@b"}', "c is not an object: it is of type string"),
    (b'{"c": [{"e": "a@b"}]}', "c is not an object: it is of type array"),
    (b'{"c": {"e": ["a@b"]}}', "e is an array: only a string, a number or a boolean can be hashed"),
    (b'{"l": {}}', "l is not an array: it is of type object"),
    (b'{"l": [{"x": 1}, "a@b"]}', "an element of l is not an object: it is of type string"),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED)
def test_a_body_that_cannot_be_masked_is_refused_without_naming_its_content(body: bytes, reason: str) -> None:
    with pytest.raises(NotMasked) as refused:
        Mask([("hash", "c.e"), ("remove", "l[*].x")], KEY).masked(body)
    assert reason in str(refused.value)
    assert "a@b" not in str(refused.value)


WRONG = [
    (["c..e"], "cannot be read"),
    ([""], "cannot be read"),
    (["$"], "cannot be read"),
    (["c.*"], "cannot be read"),
    (["c[0]"], "cannot be read"),
    (["c[*"], "cannot be read"),
    (["c", "c"], "the path c is given twice: once with --hash, once with --remove"),
    (["c", "c.e"], "--hash c covers all of c.e: leave one of them out"),
    (["c[*].x", "c.e"], r"c cannot be both an array \(c\[\*\]\) and an object"),
    (["[*].x", "c"], r"the body cannot be both an array \(\[\*\]\) and an object"),
]


@pytest.mark.parametrize(("paths", "reason"), WRONG)
def test_paths_that_make_no_sense_are_refused(paths: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Mask(list(zip(("hash", "remove"), paths, strict=False)), KEY)
    assert "sixteen" not in repr(Mask([("hash", "c")], KEY))


def test_a_path_may_begin_with_the_root() -> None:
    assert steps_of("$.a[*].b") == steps_of("a[*].b") == ("a", None, "b")
    assert steps_of('$["a b"]') == ("a b",)


NAMES = st.sampled_from(["a", "b", "c", 'q"', "é"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def expected_of(value: Any, steps: tuple[str | None, ...], action: str) -> Any:
    """What masking means, on parsed values: the slow, obvious version."""
    if value is None:
        return None
    step, rest = steps[0], steps[1:]
    if not isinstance(value, list if step is None else dict):
        raise NotMasked
    places = list(range(len(value))) if step is None else [step] if step in value else []
    for place in reversed(places):
        if rest:
            value[place] = expected_of(value[place], rest, action)
        elif action == "remove":
            del value[place]
        elif action == "redact":
            value[place] = "***"
        elif isinstance(value[place], list | dict):
            raise NotMasked
        elif value[place] is not None:
            found = value[place]
            value[place] = digest(found if isinstance(found, str) else json.dumps(found))
    return value


@given(
    JSON,
    st.lists(st.none() | NAMES, min_size=1, max_size=3),
    st.sampled_from(["hash", "remove", "redact"]),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_masking_the_text_is_masking_the_value(
    value: Any, steps: list[str | None], action: str, indent: int | None, ascii_: bool
) -> None:
    path = "".join("[*]" if step is None else f"[{json.dumps(step, ensure_ascii=False)}]" for step in steps)
    body = json.dumps(value, indent=indent, ensure_ascii=ascii_).encode("utf-8", "surrogatepass")
    mask = Mask([(action, path)], KEY)
    try:
        expected = expected_of(json.loads(body), tuple(steps), action)
    except NotMasked:
        with pytest.raises(NotMasked):
            mask.masked(body)
        return
    assert json.loads(mask.masked(body)) == expected
    if expected == json.loads(body):
        assert mask.masked(body) == body or b"***" in body or action == "remove"


@given(st.text(alphabet='{}[]:,"\\ \n0123456789.eE+-truefalsn', max_size=20))
def test_the_reader_accepts_what_json_is(text: str) -> None:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError("the same key twice")
        return dict(pairs)

    def refused(text: str) -> object:
        raise ValueError(text)

    try:
        json.loads(text, object_pairs_hook=unique, parse_constant=refused)
    except ValueError:
        with pytest.raises(NotJson):
            parsed(text)
    else:
        parsed(text)
