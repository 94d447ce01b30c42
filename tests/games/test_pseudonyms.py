"""Names on the board: visible, short, of one script; what looks alike is the same."""

import pytest
from hypothesis import given, strategies as st

from distlib.games.pseudonyms import MOST_SIGNS, PseudonymError, check_pseudonym, pseudonym_key


@pytest.mark.parametrize("name", ["Night Owl", "owl_7", "Łukasz", "Ζήνων", "夜の梟", "ינשוף", "O'Neill", "É.-M."])
def test_a_name_stays_as_it_is(name: str) -> None:
    assert check_pseudonym(f" {name} ") == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "has 2 to 24 signs"),
        ("a" * 25, "has 2 to 24 signs"),
        ("a" * 10_000_000, "at most 24 signs, got 10,000,000"),
        ("<script>", "letters, digits"),
        ("&lt;b&gt;", "letters, digits"),
        ("owl\u202egpj", "letters, digits"),
        ("owl\u200b", "letters, digits"),
        ("owl\n1", "letters, digits"),
        ("o\x1b[2Jl", "letters, digits"),
        ("owl\ud800", "letters, digits"),
        ("😀😀", "letters, digits"),
        ("z\u0335\u0336\u0337a", "one for each letter"),
        ("\u0301owl", "one for each letter"),
        ("Аda", "letters of one script"),
        ("12", "letters of one script"),
        ("P.A.R", "stands for something else"),
        ("Others", "stands for something else"),
    ],
)
def test_a_name_that_could_mislead_is_refused(name: str, why: str) -> None:
    with pytest.raises(PseudonymError, match=why):
        check_pseudonym(name)


@pytest.mark.parametrize(
    "other", ["night-owl", "NIGHTOWL", "Ｎｉｇｈｔ Ｏｗｌ", "Níght Owl", "night.owl", "NIght OwI", "N1ght 0wl"]
)
def test_what_looks_alike_is_the_same_name(other: str) -> None:
    assert pseudonym_key(check_pseudonym(other)) == pseudonym_key("Night Owl")


@given(st.text())
def test_any_text_is_a_name_or_is_refused(text: str) -> None:
    try:
        name = check_pseudonym(text)
    except PseudonymError as error:
        assert str(error).isprintable()
        return
    assert len(name) <= MOST_SIGNS and name.isprintable() and pseudonym_key(name)
    assert check_pseudonym(name) == name
