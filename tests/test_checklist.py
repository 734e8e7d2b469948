"""Every required id of the checklist is claimed by a test, and tests claim no id that does not exist."""

from __future__ import annotations

from pathlib import Path

from tests.checklist import FEATURES, REQUIRED, claims


def test_every_required_id_is_claimed_by_a_test() -> None:
    claimed = claims()
    missing = [f"{feature}  {FEATURES[feature]}" for feature in sorted(REQUIRED) if feature not in claimed]
    assert not missing, "no test claims:\n  " + "\n  ".join(missing)


def test_no_test_claims_an_unknown_id() -> None:
    unknown = {feature: tests for feature, tests in claims().items() if feature not in FEATURES}
    assert not unknown, f"not on the checklist: {unknown}"


def test_ids_are_read_from_the_marks_of_test_functions(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        '@pytest.mark.feature("S0-01")\ndef helper():\n    "S0-02"\n\n\n'
        "class TestIt:\n    @pytest.mark.slow\n    @pytest.mark.feature('S9-98', 'S9-99')\n"
        "    def test_a(self):\n        'S0-03'\n"
    )
    assert claims(tmp_path) == {"S9-98": ["test_some.py::test_a"], "S9-99": ["test_some.py::test_a"]}
