"""What a file is called that should be a notebook and is not."""

from __future__ import annotations

import io
import json
import zipfile

import nbformat
import pytest
from nbconvert import HTMLExporter, PythonExporter
from nbformat.v4 import new_code_cell, new_notebook

from distlib.classroom.grader.file_kind import kind_of, looks_like_a_notebook
from distlib.classroom.grader.submission import CannotGrade, find_notebook, read_submission

BOOK = new_notebook(cells=[new_code_cell("import torch\n%time x = 1", outputs=[])])
TEXT = nbformat.writes(BOOK, indent=1)
CONFLICT = TEXT.replace('"cells": [', '"cells": [\n<<<<<<< HEAD\n=======\n>>>>>>> theirs', 1)


def zipped(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, "…")
    return file.getvalue()


KINDS = {
    "": "empty",
    " \n\0": "empty",
    "<!DOCTYPE html><html><body>Sign in</body></html>": "a web page (HTML)",
    "\ufeff \n<!-- saved --><HTML lang='de'>": "a web page (HTML)",
    HTMLExporter().from_notebook_node(BOOK)[0]: "a notebook that was exported as a web page (HTML), to be read only",
    PythonExporter().from_notebook_node(BOOK)[0]: "a Python script",
    "# %%\ndef f():\n    return 1\n": "a Python script",
    f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n": "a pointer of Git LFS",
    CONFLICT: "a file in which git has left a conflict (<<<<<<<), from line 3 on",
    f"<<<<<<< HEAD\n{TEXT}\n=======\n{TEXT}\n>>>>>>> theirs\n": "a file in which git has left a conflict",
    "Dear teacher, it does not work.": "a text file",
    TEXT.replace(",", ";", 1): "damaged: it begins like one and can't be parsed",
}
BYTES = {
    zipped("02.ipynb"): "a zip file",
    zipped("[Content_Types].xml"): "a document of Word",
    b"%PDF-1.7": "a PDF file",
    b"\x89PNG\r\n": "a picture (PNG)",
    b"\x1f\x8b\x08\0": "a file packed with gzip",
    b"\x7fELF\0\x01": "a file of another kind",
}


CASES = [*((text.encode(), what) for text, what in KINDS.items()), *BYTES.items()]


@pytest.mark.parametrize(("content", "what"), CASES, ids=[f"{number} {what}" for number, (_, what) in enumerate(CASES)])
def test_a_file_is_called_what_it_is(content: bytes, what: str, tmp_path: object) -> None:
    kind = kind_of(content)
    assert kind.what.startswith(what)
    assert kind.advice and "Open it" not in kind.advice and not kind.advice.endswith(".")
    assert not looks_like_a_notebook(content) or what.startswith(("a file in which", "damaged"))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.9, 0.99])
def test_the_beginning_of_a_notebook(share: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("cut") / "x.ipynb"
    text = json.dumps(BOOK | {"cells": [new_code_cell("a" * 50, outputs=[])] * 3})
    path.write_text(text[: int(share * len(text))])
    with pytest.raises(
        CannotGrade, match="x.ipynb is not a notebook: it is only the beginning of one: it ends in the mi"
    ):
        read_submission(path)


def test_what_is_there_instead_of_a_notebook_is_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ada")
    (folder / "work.json").write_text(TEXT)
    (folder / "work.pdf").write_bytes(b"%PDF")
    with pytest.raises(
        CannotGrade, match=r"only work.json \(a notebook with an unusual name\), work.pdf \(a PDF file\)"
    ):
        find_notebook(folder, "02_all_reduce")
    assert len(read_submission(folder / "work.json").cells) == 1
