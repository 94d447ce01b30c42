"""The same picture on light and on dark paper, of which the theme of JupyterLab shows one, and as wide as is legible.

Where nothing says which theme there is, the one is seen that the system prefers; where style sheets are taken away (a
notebook that is not trusted), the light one. Each brings its paper along, so it can be read on any background.
"""

from __future__ import annotations

import base64
import html

from distlib.draw.live import BROWSER
from distlib.draw.style import DARK_PAPER, LIGHT_PAPER, NARROWEST


def on_both_papers(light: bytes, dark: bytes, kind: str, alt: str, width: int) -> str:
    """HTML of a picture.

    Args:
        light, dark: the image for each paper.
        kind: their MIME type.
        alt: what they show, in words.
        width: in CSS pixels, where there is room for it.
    """
    style = (BROWSER / "papers.css").read_text()
    # Where there is little room, the Tab key leads to it and the arrows scroll it: they must not be JupyterLab's there.
    scrolled = 'class="distlib-papers" style="overflow-x:auto" data-lm-suppress-shortcuts="true"'
    both = _image(light, kind, alt, width, LIGHT_PAPER, "light") + _image(dark, kind, alt, width, DARK_PAPER, "dark")
    return f"<style>{style}</style><div {scrolled}>{both}</div>"


def _image(data: bytes, kind: str, alt: str, width: int, paper: str, name: str) -> str:
    shown = "none" if name == "dark" else "block"
    return (
        f'<img alt="{html.escape(alt, quote=True)}" class="distlib-{name}" width="{width}" '
        f'style="display:{shown};min-width:{min(NARROWEST, width)}px;max-width:100%;height:auto;background:{paper}" '
        f'src="data:{kind};base64,{base64.b64encode(data).decode("ascii")}">'
    )
