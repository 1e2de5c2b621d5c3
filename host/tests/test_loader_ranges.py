"""The quick look at a plugin's range of hosts says the same as `packaging`, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from packaging.specifiers import SpecifierSet

from unipi.loader.checks import _plainly_within

RELEASES = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(
    lambda parts: ".".join(map(str, parts))
)
CLAUSES = st.lists(st.tuples(st.sampled_from([">=", "<"]), RELEASES), min_size=1, max_size=2)


@given(RELEASES, CLAUSES)
def test_of_plain_ranges_it_says_what_packaging_says(version, clauses):
    wanted = ",".join(operator + release for operator, release in clauses)
    assert _plainly_within(version, wanted) == SpecifierSet(wanted).contains(version)


@pytest.mark.parametrize("wanted", ["~=0.1", "==0.1.*", ">=0.1rc1", "!=0.1", "", "new", ">= 0.1;"])
def test_all_else_is_left_to_packaging(wanted):
    assert not _plainly_within("0.1.0", wanted)


def test_a_version_that_is_no_plain_release_is_left_to_packaging():
    assert not _plainly_within("0.1.0rc1", ">=0.0")
