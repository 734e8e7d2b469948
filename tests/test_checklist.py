"""Every id that the broker owes is named by a test, and tests name no id that does not exist."""

from __future__ import annotations

from pathlib import Path

from tests.checklist import FEATURES, REQUIRED, claims, ids_of


def test_every_required_id_is_named_by_a_test() -> None:
    named = claims()
    owed = [f"{feature}  {FEATURES[feature]}" for feature in sorted(REQUIRED) if feature not in named]
    assert not owed, "no test names:\n  " + "\n  ".join(owed)


def test_no_test_names_an_unknown_id() -> None:
    unknown = {feature: tests for feature, tests in claims().items() if feature not in FEATURES}
    assert not unknown, f"not on the checklist: {unknown}"


def test_an_id_is_read_from_the_name_and_from_the_docstring() -> None:
    assert ids_of("test_s0_08_returns", "Also S4-45, and S4-46.") == {"S0-08", "S4-45", "S4-46"}
    assert ids_of("test_class0_08_is_nothing", "S0-081 and XS0-08 are nothing") == set()


def test_only_test_functions_claim_ids(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        'def helper():\n    "S0-01"\n\n\nclass TestIt:\n    def test_a(self):\n        "S9-99"\n'
    )
    assert claims(tmp_path) == {"S9-99": ["test_some.py::test_a"]}
