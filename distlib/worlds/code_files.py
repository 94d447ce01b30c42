"""Functions that travel keep the name of the file, or cell, in which they were written: errors and deadlocks name it.

Of code that was never a file, `remember_lines` keeps the text, so that they can show its lines as well.

Cloudpickle drops it from version 3.1.3 on, and calls all of them "<dynamic-code>".
"""

from __future__ import annotations

import io
import linecache
from collections import ChainMap
from types import CodeType
from typing import Any

import cloudpickle

from distlib.worlds.with_cache import reduce_cached


def remember_lines(file: str, source: str) -> None:
    """Let tracebacks and reports show the lines of a text that is compiled under the name of a file that is none."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)


def dumps(value: Any) -> bytes:
    """As `cloudpickle.dumps`; to be read by `cloudpickle.loads`."""
    file = io.BytesIO()
    FilePickler(file).dump(value)
    return file.getvalue()


def _reduce_code(code: CodeType) -> Any:
    _, parts = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return _code_of_file, (code.co_filename, parts)


def _code_of_file(file: str, parts: tuple[Any, ...]) -> CodeType:
    return CodeType(*parts).replace(co_filename=file)


class FilePickler(cloudpickle.Pickler):
    """Cloudpickle's, with the names of files, and with functions that have a cache."""

    dispatch_table = ChainMap({CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table)

    def reducer_override(self, value: Any) -> Any:
        reduced = reduce_cached(value)
        return super().reducer_override(value) if reduced is NotImplemented else reduced
