"""How a picture shows itself and is saved."""

import base64
import html.parser
import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageChops, ImageColor, ImageStat

from distlib.draw import style, timeline
from distlib.draw.picture import Picture, new_figure
from tests.tools.draw_samples import ring_trace

PNG = b"\x89PNG\r\n\x1a\n"


class _Tags(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def _picture(alt: str = "one line") -> Picture:
    return Picture(new_figure(300, 200), alt)


def _pixels(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def _images(picture: Picture) -> list[dict[str, str | None]]:
    return [attributes for tag, attributes in _Tags(picture._repr_html_()).found if tag == "img"]


def _png_of(image: dict[str, str | None]) -> bytes:
    header, _, data = (image["src"] or "").partition(",")
    assert header == "data:image/png;base64"
    return base64.b64decode(data)


def test_it_shows_itself_as_an_image_with_alt_text_for_light_and_for_dark_pages() -> None:
    alt = 'ranks "0" & <1>: 2 messages'
    for image in _images(_picture(alt)):
        assert (image["alt"], image["width"]) == (alt, "300")
        png = _png_of(image)
        assert png.startswith(PNG)
        assert int.from_bytes(png[16:20], "big") == 600, "two pixels of the file for each CSS pixel"
    assert ["display:none" in (image["style"] or "") for image in _images(_picture())] == [False, True]


def test_where_there_is_little_room_it_is_scrolled_and_not_made_illegible() -> None:
    (narrow, _), (wide, _) = _images(_picture()), _images(timeline(ring_trace(2)))
    assert "min-width:300px" in (narrow["style"] or "")
    assert f"min-width:{style.NARROWEST}px" in (wide["style"] or "")
    assert 'style="overflow-x:auto"' in _picture()._repr_html_()


def test_ink_and_paper_fit_the_page_and_nothing_else_changes() -> None:
    picture = timeline(ring_trace(4))
    pages = [np.asarray(_pixels(_png_of(image))) for image in _images(picture)]
    seen = {"light": _colors_of(pages[0]), "dark": _colors_of(pages[1])}
    for name, paper, ink in (
        ("light", style.LIGHT_PAPER, style.INK),
        ("dark", style.DARK_PAPER, style.DARK_INK),
    ):
        assert seen[name].most_common(1)[0][0] == ImageColor.getrgb(paper)
        assert _nearest(seen[name], ink) > 500 and _nearest(seen[name], style.BLUE) > 500
    drawn = pages[1][(pages[0] == ImageColor.getrgb(style.INK)).all(axis=-1)]
    assert len(drawn) > 500 and _nearest(_colors_of(drawn), style.DARK_INK) > 0.99 * len(drawn)


def _colors_of(pixels: np.ndarray) -> Counter[tuple[int, int, int]]:
    """How many pixels have each color."""
    red, green, blue = pixels.reshape(-1, 3).astype(int).T
    found, counts = np.unique((red << 16) + (green << 8) + blue, return_counts=True)
    return Counter({(c >> 16, c >> 8 & 255, c & 255): n for c, n in zip(found.tolist(), counts.tolist(), strict=True)})


def _nearest(seen: Counter[tuple[int, int, int]], color: str) -> int:
    """How many pixels have that color, or nearly."""
    wanted = ImageColor.getrgb(color)
    return sum(n for found, n in seen.items() if max(abs(a - b) for a, b in zip(found, wanted, strict=False)) <= 12)


def test_a_notebook_gets_the_colors_that_were_drawn() -> None:
    picture = timeline(ring_trace(4))
    exact = Image.open(io.BytesIO(picture._render("png"))).convert("RGBA")
    on_paper = Image.alpha_composite(Image.new("RGBA", exact.size, style.LIGHT_PAPER), exact).convert("RGB")
    difference = ImageChops.difference(on_paper, _pixels(picture._repr_png_()))
    assert max(ImageStat.Stat(difference).mean) < 0.5, "of 255"


def test_a_notebook_gets_text_pixels_and_html() -> None:
    bundle = _picture("one line")._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/png", "text/html"}
    assert bundle["text/plain"] == "one line"
    assert base64.b64decode(bundle["image/png"]).startswith(PNG)


@pytest.mark.parametrize(("ending", "start"), [("png", PNG), ("PNG", PNG), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_it_is_saved_in_the_format_of_the_file_name(tmp_path: Path, ending: str, start: bytes) -> None:
    path = _picture().save(tmp_path / f"picture.{ending}")
    assert path.read_bytes().startswith(start)


def test_an_unknown_ending_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf, got 'picture\.doc'"):
        _picture().save("picture.doc")


def test_its_repr_is_its_alt_text() -> None:
    assert repr(_picture("one line")) == "<Picture: one line>"
