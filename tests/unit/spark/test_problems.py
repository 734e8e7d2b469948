"""The errors of Spark's processes can still be imported by their former module name."""

from __future__ import annotations

import pytest

from leveret.spark import errors, problems


def test_the_former_name_gives_the_same_class_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match=r"leveret\.spark\.errors"):
        assert problems.DataLoss is errors.DataLoss


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        _ = problems.Nothing
