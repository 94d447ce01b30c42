"""What JupyterLab's server no longer prints when a page is closed or loaded again, and what it prints as before."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator

import pytest
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

from distlib.cli import closed_pages
from distlib.cli.settings import SETTINGS


@pytest.fixture
def extension() -> Iterator[None]:
    """It is loaded, as by a server, and afterwards taken away."""
    closed_pages._load_jupyter_server_extension(None)  # type: ignore[arg-type]
    yield
    for name in closed_pages.REPORTED_BY:
        logging.getLogger(name).removeFilter(closed_pages.is_news)


def log_a_failed_task(error: Exception) -> None:
    """A task of the event loop fails, and nobody asks it for its result: asyncio logs that."""

    async def fail() -> None:
        raise error

    async def start() -> None:
        tasks = [asyncio.ensure_future(fail())]
        await asyncio.wait(tasks)
        tasks.clear()

    asyncio.run(start())
    gc.collect()


@pytest.mark.parametrize("error", [WebSocketClosedError(), StreamClosedError()])
def test_a_closed_page_is_not_reported(error: Exception, extension: None, caplog: pytest.LogCaptureFixture) -> None:
    log_a_failed_task(error)
    for name in closed_pages.REPORTED_BY:
        logging.getLogger(name).error("Uncaught exception in ZMQStream callback", exc_info=error)
    assert caplog.records == []


def test_everything_else_is_reported(extension: None, caplog: pytest.LogCaptureFixture) -> None:
    log_a_failed_task(OSError("no space left"))
    logging.getLogger("tornado.general").error("closed")
    assert [record.name for record in caplog.records] == ["asyncio", "tornado.general"]


def test_without_it_asyncio_reports_a_closed_page(caplog: pytest.LogCaptureFixture) -> None:
    log_a_failed_task(WebSocketClosedError())
    (record,) = caplog.records
    assert record.message.startswith("Task exception was never retrieved")


def test_the_server_loads_it() -> None:
    text = (SETTINGS / "everybody" / "jupyter_server_config.json").read_text(encoding="utf-8")
    assert f'"{closed_pages.__name__}": true' in text
    assert closed_pages._jupyter_server_extension_points() == [{"module": closed_pages.__name__}]
