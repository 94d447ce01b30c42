"""How a picture shows itself and is saved."""

import base64
import html.parser
import io
from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageStat

from distlib.diagnosis import DeadlockError
from distlib.draw import bytes_per_rank, style, timeline
from distlib.draw.picture import Picture, new_figure
from distlib.trace import Trace
from tests.draw_samples import ring_trace

PNG = b"\x89PNG\r\n\x1a\n"


class _Tags(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def _picture(alt: str = "one line", error: Exception | None = None) -> Picture:
    return Picture(new_figure(300, 200), alt, error)


def test_it_shows_itself_as_an_image_with_alt_text() -> None:
    alt = 'ranks "0" & <1>: 2 messages'
    ((tag, attributes),) = _Tags(_picture(alt)._repr_html_()).found
    assert tag == "img" and attributes["alt"] == alt
    assert attributes["width"] == "300"
    header, _, data = (attributes["src"] or "").partition(",")
    assert header == "data:image/png;base64"
    png = base64.b64decode(data)
    assert png.startswith(PNG)
    assert int.from_bytes(png[16:20], "big") == 600, "two pixels of the file for each CSS pixel"


def test_the_background_is_transparent_and_the_text_is_not() -> None:
    picture = bytes_per_rank(Trace(2, []))
    for png in (picture._repr_png_(), picture._render("png")):
        alphas = Image.open(io.BytesIO(png)).convert("RGBA").getchannel("A")
        assert alphas.getpixel((0, 0)) == 0
        assert alphas.getextrema() == (0, 255)


def test_a_notebook_gets_the_colors_that_were_drawn() -> None:
    picture = timeline(ring_trace(4))
    exact, shown = (
        Image.open(io.BytesIO(png)).convert("RGBA") for png in (picture._render("png"), picture._repr_png_())
    )
    assert exact.size == shown.size
    paper = [Image.new("RGBA", exact.size, color) for color in (style.LIGHT_PAPER, style.DARK_PAPER)]
    for white_or_black in paper:
        difference = ImageChops.difference(*(Image.alpha_composite(white_or_black, one) for one in (exact, shown)))
        assert max(ImageStat.Stat(difference.convert("RGB")).mean) < 0.5, "of 255"


def test_a_notebook_gets_text_pixels_and_html() -> None:
    bundle = _picture("one line")._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/png", "text/html"}
    assert bundle["text/plain"] == "one line"
    assert base64.b64decode(bundle["image/png"]).startswith(PNG)


def test_an_error_stands_below_the_picture() -> None:
    picture = _picture(error=DeadlockError("cell 7, line 12: deadlock. <rank 0> waits"))
    assert "deadlock. &lt;rank 0&gt; waits</pre>" in picture._repr_html_()
    assert picture._repr_mimebundle_()["text/plain"].endswith("deadlock. <rank 0> waits")


@pytest.mark.parametrize(("ending", "start"), [("png", PNG), ("PNG", PNG), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_it_is_saved_in_the_format_of_the_file_name(tmp_path: Path, ending: str, start: bytes) -> None:
    path = _picture().save(tmp_path / f"picture.{ending}")
    assert path.read_bytes().startswith(start)


def test_an_unknown_ending_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf, got 'picture\.doc'"):
        _picture().save("picture.doc")


def test_its_repr_is_its_alt_text() -> None:
    assert repr(_picture("one line")) == "<Picture: one line>"
