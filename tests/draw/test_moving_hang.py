"""The moving picture of a hang: what the run reported, up to date, and small."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from distlib.draw.players.moving_hang import CELL, moving_hang

SVG = "{http://www.w3.org/2000/svg}"
XML = "{http://www.w3.org/XML/1998/namespace}"


@pytest.fixture(scope="module")
def picture() -> ElementTree.Element:
    return ElementTree.fromstring(moving_hang())


def test_the_file_is_up_to_date(root: Path) -> None:
    made = (root / "course" / "images" / "hang.svg").read_text(encoding="utf-8")
    assert made == moving_hang(), "run python -m distlib.draw.players.moving_hang course/images/hang.svg"


def test_the_readme_shows_it(root: Path) -> None:
    assert "](course/images/hang.svg)" in (root / "README.md").read_text(encoding="utf-8")


def test_it_is_small_and_loads_nothing() -> None:
    text = moving_hang()
    assert len(text.encode()) < 20_000
    assert not any(word in text.replace(SVG[1:-1], "") for word in ("http", "href", "url(", "<script", "<image"))


def test_the_marked_line_is_the_one_that_the_report_names(picture: ElementTree.Element) -> None:
    (waiting,) = [number for number, line in enumerate(CELL.splitlines(), 1) if "comm.recv" in line]
    (mark,) = picture.findall(f"{SVG}rect[@fill='#FBDCCB']")
    (named,) = [text for text in picture.iter(f"{SVG}text") if text.text == str(waiting)]
    assert 0 < float(named.attrib["y"]) - float(mark.attrib["y"]) < float(mark.attrib["height"])
    assert any(f"cell 1, line {waiting}: deadlock" in (text.text or "") for text in picture.iter(f"{SVG}text"))


def test_each_line_of_the_report_comes_with_its_arrow(picture: ElementTree.Element) -> None:
    report = [text for text in picture.findall(f"{SVG}text[@{XML}space]") if text.attrib["font-size"] == "11"]
    arrows = [group for group in picture.findall(f"{SVG}g") if group.find(f"{SVG}path") is not None]
    begins = [[_begins(each) for each in some] for some in (report, arrows)]
    assert len(report) == 4 and len(arrows) == 2
    assert begins[0] == sorted(begins[0]) and begins[1] == begins[0][:2]


def _begins(element: ElementTree.Element) -> float:
    """The moment from which it is seen."""
    animation = element.find(f"{SVG}animate")
    assert animation is not None and animation.attrib["values"] == "0;1"
    return float(animation.attrib["keyTimes"].split(";")[1])


def test_where_nothing_moves_no_words_cover_others(picture: ElementTree.Element) -> None:
    seen = [text for text in picture.iter(f"{SVG}text") if text.attrib.get("opacity") != "0"]
    below = [float(text.attrib["y"]) for text in seen if float(text.attrib["y"]) > 240]
    assert all(later - earlier >= 18 for earlier, later in zip(below, below[1:], strict=False))
