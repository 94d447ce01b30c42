"""Notebooks that are the same are judged once, in a class whose submissions are read and settled one by one.

What a judge says depends on the notebook that is put together from the instructor's and the student's, on the seed and
on nothing else. Of many submissions that are odd as files the same notebook is made; to judge that again shows nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import pickle
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from distlib.classroom.grader.examine import Judge, OpenJudge
from distlib.judge.remote.judge import Judged


def judged_once(open_judge: OpenJudge, folder: Path) -> OpenJudge:
    """A judge that keeps what it said about each notebook in an empty folder, and says that again."""

    @contextmanager
    def opened(notebook: NotebookNode) -> Iterator[Judge]:
        with open_judge(notebook) as judge:
            yield partial(_judge_once, judge, folder)

    def open_it(notebook: NotebookNode) -> AbstractContextManager[Judge]:
        return opened(notebook)

    return open_it


def _judge_once(judge: Judge, folder: Path, notebook: NotebookNode, seed: str = "", **options: Any) -> Judged:
    """In the process of a submission. Another one with the same notebook waits meanwhile."""
    text = "\n".join([nbformat.writes(notebook), seed, repr(sorted(options.items()))])
    kept = folder / hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(pickle.dumps(judge(notebook, seed, **options)))
        judged = pickle.loads(kept.read_bytes())
    assert isinstance(judged, Judged)
    return judged
