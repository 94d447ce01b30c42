"""The link checker finds what is broken, and what would be loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from distlib.authoring.site.site_links import find_faults


def site_with(folder: Path, body: str, style: str = "") -> Path:
    (folder / "sub").mkdir()
    (folder / "sub" / "other.html").write_text('<h2 id="a b">there</h2><a href="../index.html">back</a>')
    (folder / "index.html").write_text(f"<html><body>{body}</body></html>")
    (folder / "style.css").write_text(style)
    return folder


@pytest.mark.parametrize(
    "body",
    [
        '<a href="sub/other.html#a%20b">there</a>',
        '<a href="#top" id="top">here</a>',
        '<a href="https://example.org/">elsewhere: the reader decides</a>',
        '<a href="mailto:ada@example.org">a letter</a>',
        '<img src="style.css"><link rel="canonical" href="https://example.org/">',
        '<img src="data:image/png;base64,AAAA">',
    ],
)
def test_a_sound_page_has_no_faults(tmp_path: Path, body: str) -> None:
    assert find_faults(site_with(tmp_path, body)) == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="gone.html">x</a>', "index.html links to gone.html"),
        ('<a href="sub/other.html#gone">x</a>', "index.html links to sub/other.html#gone"),
        ('<a href="#gone">x</a>', "index.html links to #gone"),
        ('<a href="sub/">x</a>', "index.html links to sub/"),
        ('<a href="../../secret.html">x</a>', "index.html links to ../../secret.html"),
        ('<img src="gone.png">', "index.html links to gone.png"),
        ('<script src="https://example.org/x.js"></script>', "index.html loads https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "index.html loads //example.org/x.css"),
        ('<iframe src="http://example.org/"></iframe>', "index.html loads http://example.org/"),
    ],
)
def test_a_fault_is_found(tmp_path: Path, body: str, fault: str) -> None:
    (found,) = find_faults(site_with(tmp_path, body))
    assert found.startswith(fault)


@pytest.mark.parametrize("style", ["@import 'https://x.org/f.css';", "a { background: url(//x.org/a.png) }"])
def test_a_style_that_loads_is_found(tmp_path: Path, style: str) -> None:
    (found,) = find_faults(site_with(tmp_path, "", style))
    assert found.startswith("style.css loads")
