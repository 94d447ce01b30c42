"""An extension of JupyterLab's server: it is silent about pages that have been closed, or loaded again.

A kernel's message for such a page finds nobody, and the libraries below report it in 40 lines of traceback, in the
terminal in which the address stands. Nothing is lost by it: the page that comes next asks for what it has missed.
"""

from __future__ import annotations

import logging

from jupyter_server.serverapp import ServerApp
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

# Who reports it: the event loop, of a task or a callback, and the sockets of kernels, which log as "tornado.general".
REPORTED_BY = ("asyncio", "tornado.general", "tornado.application")


def is_news(record: logging.LogRecord) -> bool:
    """Whether something should be printed: everything but that a page is gone."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, WebSocketClosedError | StreamClosedError)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    for name in REPORTED_BY:
        logging.getLogger(name).addFilter(is_news)
