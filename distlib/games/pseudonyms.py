"""The names under which students appear on the board, if they want to.

What a name may be is decided by the eye of whoever reads the board: letters of one script, digits, blanks and a few
marks, all visible, on one short line. What looks alike is the same name: "Night Owl", "night-owl", "ＮＩＧＨＴ ＯＷＬ".
"""

from __future__ import annotations

import unicodedata

MOST_SIGNS = 24
_MARKS = " -_.'"
_TAKEN = {"par", "authors", "theauthors", "author", "record", "authorsrecord", "other", "others"}
_ONE_SIGN = str.maketrans("lı10", "iiio")  # after small letters were made of all
_TOGETHER = ("CJK", "HIRAGANA", "KATAKANA")  # Japanese is written with all of them


class PseudonymError(ValueError):
    """A name that can't stand on the board. The message says why."""


def check_pseudonym(text: str) -> str:
    """The name as the board shows it.

    Raises:
        PseudonymError: it is too long, or has a sign that can't be seen, or looks like something else.
    """
    if len(text) > 4 * MOST_SIGNS:
        raise PseudonymError(f"a pseudonym has at most {MOST_SIGNS} signs, got {len(text):,}")
    name = " ".join(unicodedata.normalize("NFKC", text).split(" ")).strip()
    if not 2 <= len(name) <= MOST_SIGNS:
        raise PseudonymError(f"a pseudonym has 2 to {MOST_SIGNS} signs, got {len(name)}")
    for sign in name:
        if not (unicodedata.category(sign) in ("Lu", "Ll", "Lo", "Nd", "Mn", "Mc") or sign in _MARKS):
            raise PseudonymError(f"a pseudonym has letters, digits, blanks and {_MARKS.strip()}, got {ascii(sign)}")
    if unicodedata.category(name[0]).startswith("M") or _stacked(name):
        raise PseudonymError("marks over and under letters: one for each letter is enough")
    scripts = {script_of(sign) for sign in name if unicodedata.category(sign).startswith("L")}
    if len(scripts) != 1:
        raise PseudonymError("a pseudonym has letters of one script, so that it looks like no other one")
    if pseudonym_key(name) in _TAKEN:
        raise PseudonymError(f"{name} stands for something else on the board")
    return name


def _stacked(name: str) -> bool:
    marks = [unicodedata.category(sign) == "Mn" for sign in name]
    return any(first and second for first, second in zip(marks, marks[1:], strict=False))


def script_of(letter: str) -> str:
    """ "LATIN", "CYRILLIC", …; scripts that are written together are one."""
    word = unicodedata.name(letter, "?").split(" ")[0].split("-")[0]
    return "JAPANESE" if word in _TOGETHER else word


def pseudonym_key(name: str) -> str:
    """What is equal for names that look alike: the letters and digits, without case and accents. I, l and 1 are one
    sign, and so are O and 0."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    return "".join(sign for sign in plain if unicodedata.category(sign)[0] in "LN").translate(_ONE_SIGN)
