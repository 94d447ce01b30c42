"""What is wrong with a built site: links that lead nowhere, and anything that a page would load from elsewhere.

A link to another site is the reader's choice, and is not followed here. A script, a style, a picture or a frame from
there would be loaded without asking.
"""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}
_FOREIGN = re.compile(r"(?:https?:)?//")
_CSS_LOADS = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")]+)")
_NOT_LOADED = ("canonical", "next", "prev", "search", "index", "author", "license")  # <link rel=…> that only points


class _Page(HTMLParser):
    """The links, the addresses within the page, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.names |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in _LOADED and values.get(_LOADED[tag]) and values.get("rel") not in _NOT_LOADED:
            self.loaded.append(values[_LOADED[tag]])


def find_faults(site: Path) -> list[str]:
    """A sentence for each fault of a site. site: the folder with its index.html."""
    read = cache(_read)
    faults = []
    for path in sorted(site.rglob("*.html")):
        name, page = path.relative_to(site).as_posix(), read(path)
        faults += [f"{name} loads {address}" for address in page.loaded if _FOREIGN.match(address)]
        for link in dict.fromkeys([*page.links, *page.loaded]):
            if not urlsplit(link).scheme and not _FOREIGN.match(link) and not _leads_somewhere(site, path, link, read):
                faults.append(f"{name} links to {link}, which does not exist")
    for path in sorted(site.rglob("*.css")):
        found = _CSS_LOADS.findall(path.read_text(encoding="utf-8"))
        faults += [f"{path.relative_to(site).as_posix()} loads {address}" for address in found]
    return faults


def _leads_somewhere(site: Path, path: Path, link: str, read: object) -> bool:
    address = urlsplit(link)
    target = (path.parent / unquote(address.path)).resolve() if address.path else path
    if not target.is_file() or not target.is_relative_to(site.resolve()):
        return False
    if not address.fragment or target.suffix != ".html":
        return True
    return unquote(address.fragment) in read(target).names  # type: ignore[operator]


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page
