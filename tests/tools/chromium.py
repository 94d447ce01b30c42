"""Chromium for tests: one for a file (the fixture `browser`), and in it a fresh page for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()
PATIENCE = 240_000  # milliseconds that a page may need; on a busy machine a kernel starts slowly


@contextmanager
def running_chromium(path: str) -> Iterator[Browser]:
    """A Chromium, for one block.

    Within the block `asyncio.run` fails: playwright has an event loop under way.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=PATIENCE)
        yield browser
        browser.close()


@contextmanager
def fresh_page(browser: Browser, width: int, height: int, **options: Any) -> Iterator[Page]:
    """A page that knows nothing of other pages: it has cookies, a storage and routes of its own.

    width, height: of what is seen, in CSS pixels. options: of playwright's `new_context`.
    """
    with browser.new_context(viewport={"width": width, "height": height}, **options) as context:
        context.set_default_timeout(PATIENCE)
        yield context.new_page()
