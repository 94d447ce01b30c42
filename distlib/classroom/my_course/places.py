"""Where one was in each notebook: an extension of JupyterLab's server, which keeps the cell for the page that asks.

    page ──PUT /distlib/places {"path": …, "cell": …}──► work/progress/places.json ──GET──► {path: cell, …}

It is the page that sees what is in view, by the extension in cli/jupyter_data/labextensions/. Another browser, or the
next day, then opens a notebook there.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from tornado import web

from distlib.classroom.my_course.kept_files import KeptFileError, read_kept, write_kept
from distlib.classroom.student_copies.copy_paths import FOLDER

PLACES = "places.json"
_LONGEST = 64  # characters of a cell's id, as nbformat has it


def kept_places(course: Path) -> dict[str, str]:
    """By a notebook's path in `work/`: the id of the cell where one was. course: the course's folder."""
    try:
        kept = read_kept(course, PLACES).get("places")
    except KeptFileError:  # it is set aside when the next place is kept
        return {}
    pairs = kept.items() if isinstance(kept, dict) else ()
    return {path: cell for path, cell in pairs if isinstance(cell, str)}


def keep_place(course: Path, path: str, cell: str) -> bool:
    """Keep the cell where one is. Returns whether that was done: if there is such a notebook.

    Args:
        course: the course's folder.
        path: of the notebook in `work/`.
        cell: its id.

    Raises:
        OSError: the folder can't be written.
    """
    folder = (course / FOLDER).resolve()
    notebook = (folder / path).resolve()
    if not (cell and len(cell) <= _LONGEST and notebook.is_relative_to(folder) and notebook.suffix == ".ipynb"):
        return False
    if not notebook.is_file():
        return False
    there = {name: kept for name, kept in kept_places(course).items() if (folder / name).is_file()}
    write_kept(course, PLACES, {"places": dict(sorted({**there, path: cell}.items()))})
    return True


class PlacesHandler(APIHandler):
    """Answers the page of JupyterLab."""

    @property
    def course(self) -> Path | None:
        """The course's folder, if this server shows a student's copies of it."""
        shown = Path(self.settings["server_root_dir"]).expanduser().resolve()
        return shown.parent if shown.name == FOLDER else None

    @web.authenticated
    def get(self) -> None:
        self.finish(json.dumps(kept_places(self.course) if self.course else {}))

    @web.authenticated
    def put(self) -> None:
        told: Any = self.get_json_body()
        path, cell = (told.get("path"), told.get("cell")) if isinstance(told, dict) else (None, None)
        if not (isinstance(path, str) and isinstance(cell, str)):
            raise web.HTTPError(HTTPStatus.BAD_REQUEST, "a place is a path and a cell")
        try:
            if self.course and not keep_place(self.course, path, cell):
                raise web.HTTPError(HTTPStatus.NOT_FOUND, "there is no such notebook")
        except OSError as error:  # a full disk: the notebook is more important, and saving it will say so
            self.log.debug("the place in %s is not kept: %s", path, error)
        self.set_status(HTTPStatus.NO_CONTENT)
        self.finish()


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    place = url_path_join(server.web_app.settings["base_url"], "distlib", "places")
    server.web_app.add_handlers(".*$", [(place, PlacesHandler)])
