"""Node lists in Slurm's short form."""

import re

import pytest
from hypothesis import given, strategies as st

from distlib.launch.node_list import MOST_NODES, write_out


@pytest.mark.parametrize(
    "text, names",
    [
        ("node1", ["node1"]),
        ("node[01-03,07]", ["node01", "node02", "node03", "node07"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[099-101]", ["n099", "n100", "n101"]),
        ("n[98-101]", ["n98", "n99", "n100", "n101"]),
        ("n[0-1]", ["n0", "n1"]),
        ("login,gpu[2-3]-ib,x", ["login", "gpu2-ib", "gpu3-ib", "x"]),
        ("a[1-2],b[3,5]", ["a1", "a2", "b3", "b5"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("node-a.cluster.example,b", ["node-a.cluster.example", "b"]),
        ("[1-2]", ["1", "2"]),
        ("n1,n1", ["n1", "n1"]),
        (" n1 \n", ["n1"]),
    ],
)
def test_names_are_written_out(text: str, names: list[str]) -> None:
    assert write_out(text) == names


@pytest.mark.parametrize(
    "text, what",
    [
        ("", "a name is missing"),
        ("a,,b", "a name is missing"),
        ("a,", "a name is missing"),
        ("n[1-2", 'a "[" without a "]"'),
        ("n1-2]", 'a "]" without a "["'),
        ("n[1-[2]]", 'a "[" inside of brackets'),
        ("n[]", "got ''"),
        ("n[1,]", "got ''"),
        ("n[a-b]", "got 'a-b'"),
        ("n[1-2-3]", "got '1-2-3'"),
        ("n[-3]", "got '-3'"),
        ("n[٣]", "got '٣'"),
        ("n[3-1]", "the range 3-1 ends before it begins"),
        ("n[1-99999999999]", "more than 65,536 numbers"),
        ("n[1-999]m[1-999]", "more than 65,536 names"),
        ("n1 n2", "'n1 n2' can't be part of a name"),
        ("$(rm)", "can't be part of a name"),
    ],
)
def test_what_is_not_a_list_says_why(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)) as caught:
        write_out(text)
    assert str(caught.value).startswith(f"{text!r} is not a list of nodes: ")


def test_the_longest_list_is_allowed() -> None:
    assert len(write_out(f"n[1-{MOST_NODES}]")) == MOST_NODES


@given(st.integers(0, 2000), st.integers(0, 50), st.integers(1, 6))
def test_a_range_has_every_number_once(first: int, more: int, width: int) -> None:
    names = write_out(f"n[{first:0{width}}-{first + more}]")
    assert [int(name[1:]) for name in names] == list(range(first, first + more + 1))
    assert len(names[0]) == 1 + max(width, len(str(first)))
