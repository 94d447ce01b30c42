"""Pictures that a student has pasted into a text cell (the notebook format's attachments).

    ![sketch](attachment:sketch.png)        {"sketch.png": {"image/png": "iVBORw0KGgo…"}}

A browser only draws pictures of these kinds. Others, such as SVG, may hold a program.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from nbformat import NotebookNode

KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")
MOST_BYTES = 8 << 20  # of the pictures of one cell, in base64


def set_pictures(cell: NotebookNode, attachments: Any) -> list[str]:
    """Give a text cell these attachments instead of its own, without what is not harmless. Returns the names of that.

    Args:
        cell: changed in place.
        attachments: as found in a notebook.
    """
    kept: dict[str, dict[str, str]] = {}
    left_out, size = [], 0
    for name, data in attachments.items() if isinstance(attachments, dict) else ():
        pictures = {kind: text for kind, text in _texts(data).items() if kind in KINDS and _is_base64(text)}
        size += sum(map(len, pictures.values()))
        if pictures and size <= MOST_BYTES:
            kept[name] = pictures
        else:
            left_out.append(str(name))
    cell.pop("attachments", None)
    if kept:
        cell.attachments = kept
    return left_out


def _texts(data: Any) -> dict[str, str]:
    """The data of one attachment by its kind; a text may come as a list of lines."""
    lines = data.items() if isinstance(data, dict) else ()
    return {str(kind): "".join(map(str, text)) for kind, text in lines if isinstance(text, str | list)}


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode("".join(text.split()), validate=True))
    except (binascii.Error, ValueError):
        return False
