"""An extension of JupyterLab's server: whenever a lesson is saved, it keeps which predictions are committed in it.

A kernel that is restarted forgets them, and the next Run All takes them out of the notebook.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyter_server.serverapp import ServerApp

from distlib.classroom.my_course.predictions_made import keep_predictions, kept_predictions, predictions_made
from distlib.classroom.student_copies.copy_paths import FOLDER, copies
from distlib.classroom.student_copies.notebook_json import read_notebook
from distlib.course_root import course_folder


def note_saved(path: Path) -> None:
    """Keep what is committed in one notebook, if it is a student's copy of a lesson.

    Raises:
        OSError, ValueError: it can't be read, or what is kept can't be written.
    """
    course = course_folder(path.parent)
    original = copies(course).get(path) if course else None
    if course is None or original is None:
        return
    name = path.relative_to(course / FOLDER).as_posix()
    before = kept_predictions(course)[0].get(name, {})
    keep_predictions(course, {name: predictions_made(read_notebook(original), read_notebook(path), before)})


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    def after_saving(os_path: str, **_: Any) -> None:
        try:
            note_saved(Path(os_path).resolve())
        except Exception as error:  # an error here would tell the student that the notebook was not saved
            server.log.warning("predictions of %s are not kept: %s", os_path, error)

    server.contents_manager.register_post_save_hook(after_saving)
