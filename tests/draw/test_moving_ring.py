"""The moving picture of the README: what the run did, up to date, and small."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from distlib.draw.players.moving_ring import RANKS, moving_ring

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def picture() -> ElementTree.Element:
    return ElementTree.fromstring(moving_ring())


def test_the_file_is_up_to_date(root: Path) -> None:
    made = (root / "course" / "images" / "ring.svg").read_text(encoding="utf-8")
    assert made == moving_ring(), "run python -m distlib.draw.players.moving_ring course/images/ring.svg"


def test_the_readme_shows_it(root: Path) -> None:
    assert "](course/images/ring.svg)" in (root / "README.md").read_text(encoding="utf-8")


def test_it_is_small_and_loads_nothing() -> None:
    text = moving_ring()
    assert len(text.encode()) < 300_000
    assert not any(word in text.replace(SVG[1:-1], "") for word in ("http", "href", "url(", "<script", "<image"))


def test_every_rank_sends_a_chunk_in_every_round(picture: ElementTree.Element) -> None:
    flights = list(picture.iter(f"{SVG}animateTransform"))
    assert len(flights) == RANKS * 2 * (RANKS - 1)
    leaves = [flight.attrib["keyTimes"].split(";")[1] for flight in flights]
    assert sorted(leaves.count(moment) for moment in set(leaves)) == [RANKS] * 2 * (RANKS - 1)


def test_at_the_end_every_chunk_is_the_full_sum(picture: ElementTree.Element) -> None:
    """An outline that is shown from some moment on, and not hidden again."""
    groups = [
        group for group in picture.findall(f"{SVG}g") if group.find(f"{SVG}rect[@stroke-width='2.5']") is not None
    ]
    shown = [group.find(f"{SVG}animate") for group in groups]
    assert len(groups) == RANKS * RANKS
    assert [animation.attrib["values"] for animation in shown if animation is not None] == ["0;1"] * RANKS**2


def test_moments_go_forward(picture: ElementTree.Element) -> None:
    for kind in ("animate", "animateTransform"):
        for animation in picture.iter(SVG + kind):
            times = [float(moment) for moment in animation.attrib["keyTimes"].split(";")]
            assert times == sorted(set(times)) and times[0] == 0 and times[-1] <= 1
            assert len(times) == len(animation.attrib["values"].split(";"))
