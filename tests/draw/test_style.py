"""Colors, units, and what the package loads."""

import subprocess
import sys

import pytest

from distlib import draw
from distlib.draw import style


@pytest.mark.parametrize(
    ("ink", "paper"), [(style.INK, style.LIGHT_PAPER), (style.DARK_INK, style.DARK_PAPER)], ids=["light", "dark"]
)
def test_text_stands_out_from_light_and_dark_paper(ink: str, paper: str) -> None:
    assert style.contrast(ink, paper) >= 12


def test_the_smallest_text_stays_legible_where_there_is_little_room() -> None:
    assert style.SMALL * style.NARROWEST / style.WIDTH >= 9


@pytest.mark.parametrize("paper", [style.LIGHT_PAPER, style.DARK_PAPER])
@pytest.mark.parametrize("index", range(8))
def test_lines_stand_out_from_light_and_dark_paper(index: int, paper: str) -> None:
    assert style.contrast(style.line_color_of(index), paper) >= 3


@pytest.mark.parametrize("color", style.COLORS)
def test_text_on_a_colored_area_is_readable(color: str) -> None:
    assert style.contrast(style.text_on(color), color) >= 4.5


def test_contrast_of_black_and_white_is_21() -> None:
    assert style.contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert style.contrast("#777777", "#777777") == 1


def test_eight_ranks_have_eight_colors() -> None:
    assert len({style.color_of(rank) for rank in range(8)}) == 8
    assert style.color_of(8) == style.color_of(0)


@pytest.mark.parametrize(
    ("nbytes", "words"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (3 * 2**20, "3 MiB"),
        (2**30, "1 GiB"),
        (6_291_455, "6 MiB"),
        (2_500_000, "2.384 MiB"),
    ],
)
def test_bytes_in_words(nbytes: int, words: str) -> None:
    assert style.format_bytes(nbytes) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 ns"), (2.5e-7, "250 ns"), (0.000_25, "250 µs"), (0.0015, "1.5 ms"), (2, "2 s"), (90, "90 s")],
)
def test_seconds_in_words(seconds: float, words: str) -> None:
    assert style.format_seconds(seconds) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (12, "12"),
        (1e6, "1,000,000"),
        (0.75, "0.75"),
        (4 / 3, "1.333"),
        (1610.6127, "1,610.6"),
        (-2.0, "-2"),
        (2.5e-7, "2.5e-07"),
    ],
)
def test_numbers_in_words(number: float, words: str) -> None:
    assert style.format_number(number) == words


def test_count_knows_the_plural() -> None:
    assert [style.count(n, "message") for n in (0, 1, 1200)] == ["0 messages", "1 message", "1,200 messages"]


def test_every_public_name_is_there() -> None:
    assert sorted(draw.__all__) == dir(draw)
    assert all(getattr(draw, name).__name__ == name for name in draw.__all__)


def test_ranks_do_not_load_what_only_pictures_need() -> None:
    code = (
        "import sys, distlib.draw.chunks.watch\n"
        "loaded = {'matplotlib', 'ipywidgets', 'anywidget', 'IPython'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


@pytest.mark.slow
def test_pictures_leave_pyplot_and_the_settings_alone() -> None:
    code = (
        "import sys, matplotlib\n"
        "matplotlib.rcParams['text.color'] = 'red'\n"
        "matplotlib.rcParams['font.size'] = 99\n"
        "settings = lambda: {key: matplotlib.rcParams[key] for key in matplotlib.rcParams if 'backend' not in key}\n"
        "before = settings()\n"
        "from distlib.draw import bytes_per_rank, timeline\n"
        "from distlib.trace import Trace\n"
        "for picture in (timeline(Trace(2, [])), bytes_per_rank(Trace(2, []))):\n"
        "    assert picture._repr_html_()\n"
        "    words = picture.figure.texts[0]\n"
        "    assert words.get_color() == '#222222' and words.get_size() < 20\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert settings() == before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
