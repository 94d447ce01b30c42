"""What a file is that should be a notebook and is not, by what is in it; and what to do about it.

It is told to students who hand in, and to instructors who collect and grade. So the advice is for whoever has the file,
and none of it needs a program that opens notebooks: those don't open such a file.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

BEGIN = 1 << 16  # bytes that show what most files are
_MOST_BYTES_OF_A_SCRIPT = 1 << 20
_CONFLICT = re.compile(rb"^<<<<<<< ?[^\n]*$", re.MULTILINE)
_CONFLICT_END = re.compile(rb"^>>>>>>> ?[^\n]*$", re.MULTILINE)
_HTML = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(?:!doctype html|html|head|body)\b", re.I | re.S
)
_EXPORTED = re.compile(rb"jp-Notebook|jp-Cell|jp-RenderedHTML|nbconvert|border-box-sizing|jupyter-widgets", re.I)
_CELLS = re.compile(rb'"(?:cells|worksheets)"\s*:\s*\[')
_PYTHON = re.compile(r"^(?:import |from \w[\w.]* import |def |class |# %%|# In\[)", re.MULTILINE)

_NEEDED = "What is needed is the notebook itself, the file that ends in .ipynb"
_DOWNLOAD = "in the file browser of JupyterLab: right click, Download"
_AGAIN = "Download or copy it again. Where it was edited, the hidden folder .ipynb_checkpoints may have a whole one"


@dataclass(frozen=True)
class FileKind:
    """What a file is.

    Attributes:
        what: after "it is": "a web page (HTML)".
        advice: sentences.
    """

    what: str
    advice: str

    def __str__(self) -> str:
        return f"it is {self.what}. {self.advice}."


EMPTY = FileKind("empty", _AGAIN)
_ZIP = FileKind("a zip file", "Unpack it: the notebook, a file that ends in .ipynb, should be in it")
_BY_FIRST_BYTES = {
    b"version https://git-lfs.github.com/": FileKind(
        "a pointer of Git LFS, which stands for the file", "Where it comes from, the command git lfs pull gets the file"
    ),
    b"%PDF": FileKind("a PDF file", f"{_NEEDED}; {_DOWNLOAD}"),
    b"\x89PNG": FileKind("a picture (PNG)", f"{_NEEDED}; {_DOWNLOAD}"),
    b"\xff\xd8\xff": FileKind("a picture (JPEG)", f"{_NEEDED}; {_DOWNLOAD}"),
    b"PK\x05\x06": FileKind("an empty zip file", _NEEDED),
    b"\x1f\x8b": FileKind("a file packed with gzip", "Unpack it: the notebook should be in it"),
    b"7z\xbc\xaf": FileKind("a 7z file", "Unpack it: the notebook should be in it"),
    b"Rar!": FileKind("a RAR file", "Unpack it: the notebook should be in it"),
}
_WEB_PAGE = FileKind(
    "a web page (HTML)",
    "It may be a page to sign in that was saved in the place of the file. Sign in and download the notebook again; "
    "a notebook begins with {",
)
_EXPORT = FileKind("a notebook that was exported as a web page (HTML), to be read only", f"{_NEEDED}; {_DOWNLOAD}")
_OFFICE = FileKind("a document of Word or another office program", f"{_NEEDED}; {_DOWNLOAD}")
_SCRIPT = FileKind("a Python script", f"{_NEEDED}; {_DOWNLOAD}")
_CUT = FileKind("only the beginning of one: it ends in the middle", _AGAIN)
_DAMAGED = FileKind("damaged: it begins like one and can't be parsed", _AGAIN)
NO_CELLS = FileKind("JSON, but it has no cells", _NEEDED)


def looks_like_a_notebook(begin: bytes) -> bool:
    """Whether a file may be a notebook, whatever its name is. begin: its first bytes, `BEGIN` or all."""
    text = begin.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text.startswith(b"{") and bool(_CELLS.search(text)) and b'"cell_type"' in text


def kind_of(data: Any, *, is_cut: bool = False) -> FileKind:
    """What a file is that could not be read as a notebook.

    Args:
        data: its bytes, or what behaves like them, such as a map of the file.
        is_cut: whether it is JSON up to its end, where something is missing.
    """
    begin = bytes(data[:BEGIN])
    if not begin.strip(b"\0\t\r\n \xef\xbb\xbf"):
        return EMPTY
    if begin.startswith(b"PK\x03\x04"):
        return _OFFICE if b"[Content_Types].xml" in begin or b"mimetypeapplication/vnd.oasis" in begin else _ZIP
    for first, kind in _BY_FIRST_BYTES.items():
        if begin.startswith(first):
            return kind
    conflict = _CONFLICT.search(data)
    if conflict and _CONFLICT_END.search(data, conflict.end()):
        return _conflict(bytes(data[: conflict.start()]).count(b"\n") + 1)
    if _HTML.match(begin):
        return _EXPORT if _EXPORTED.search(data) else _WEB_PAGE
    if begin.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return _CUT if is_cut else _DAMAGED
    return _of_text(data)


def _conflict(line: int) -> FileKind:
    return FileKind(
        f"a file in which git has left a conflict (<<<<<<<), from line {line} on: two versions, both incomplete",
        "While the merge is going on, git checkout --ours FILE takes one version and git checkout --theirs FILE the "
        "other one, whole. Later, git log FILE lists the versions before it",
    )


def _of_text(data: Any) -> FileKind:
    if len(data) <= _MOST_BYTES_OF_A_SCRIPT:
        try:
            text = bytes(data).decode("utf-8-sig")
            if _PYTHON.search(text):
                ast.parse(re.sub(r"^\s*[%!].*$", "", text, flags=re.MULTILINE))
                return _SCRIPT
        except (UnicodeDecodeError, SyntaxError, ValueError, RecursionError, MemoryError):
            pass
    begin = bytes(data[:BEGIN])
    is_text = b"\0" not in begin and all(byte >= 32 or byte in b"\t\n\r\f\x1b" for byte in begin)
    return FileKind("a text file" if is_text else "a file of another kind, without text", f"{_NEEDED}; {_DOWNLOAD}")
