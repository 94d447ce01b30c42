"""Text pages, and from them the site: all that Sphinx reads is written to one folder, in the layout of the course."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from distlib.authoring.cells import AuthoringError
from distlib.authoring.site.glossary_page import glossary_page
from distlib.authoring.site.lesson_pages import NotebookPage, exercise_page, lesson_page, other_page
from distlib.authoring.site.one_click import read_repository
from distlib.authoring.site.reference_pages import FOLDERS, PAGES, reference_pages
from distlib.authoring.site.syllabus_page import read_lessons, syllabus_page
from distlib.authoring.stored_runs import StoredRuns
from distlib.classroom.uploads.release import for_students
from distlib.draw.live import BROWSER

TITLE = "Distributed training, from the message up"
_OWN = Path(__file__).parent / "browser"
_PARTS = ("player", "form")  # of distlib/draw/browser: what comes to life on a page
_DOCUMENTS = ("ANYWHERE.md", "docker/README.md")
_PROCESSES = os.cpu_count() or 1  # that Sphinx shares the pages among
_ANYWHERE = "course/anywhere.ipynb"
_LICENSE = re.compile(r"\[([^\]]+)\]\((LICENSE[-a-z]*)\)")

CONFIG = {
    "project": TITLE,
    "html_title": TITLE,
    "author": "The contributors of the course",
    "extensions": ["myst_nb", "distlib.authoring.mathml"],
    "myst_enable_extensions": ["dollarmath", "colon_fence"],
    "myst_dmath_double_inline": True,
    "myst_heading_anchors": 3,
    "nb_execution_mode": "off",
    "nb_merge_streams": True,
    "html_theme": "furo",
    "html_math_renderer": "mathml",
    "html_static_path": ["_static"],
    "html_extra_path": ["_extra"],
    "html_css_files": [*(f"{part}.css" for part in _PARTS), "site.css"],
    "html_js_files": [("site.js", {"defer": "defer"})],
    "html_copy_source": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
    "pygments_style": "default",
    "suppress_warnings": ["ref.python"],  # distlib.Link is distlib.network.Link: two places to find it are no fault
    "default_role": "literal",
}


@dataclass(frozen=True)
class Site:
    """The site of a course.

    Attributes:
        root: the course's folder.
        runs: where the runs of its lessons are.
        pages: where the text for Sphinx is written; it is emptied before.
        target: where the site is written.
    """

    root: Path
    runs: StoredRuns
    pages: Path
    target: Path

    def write_pages(self) -> None:
        """Everything that Sphinx reads."""
        shutil.rmtree(self.pages, ignore_errors=True)
        repository = read_repository(self.root)
        for lesson in self.runs.lessons():
            self._notebook(f"course/{lesson}.ipynb", lesson_page(self.runs, lesson, repository))
            self._copy(f"course/{lesson}.ipynb", f"_extra/notebooks/{lesson}.ipynb")
        self._notebook(_ANYWHERE, other_page(self.root / _ANYWHERE))
        self._copy(_ANYWHERE, "_extra/notebooks/anywhere.ipynb")
        for path in self._exercises():
            self._notebook(path.relative_to(self.root).as_posix(), exercise_page(path))
            self._copy(path.relative_to(self.root).as_posix(), f"_extra/notebooks/exercise_{path.name}")
        for name in _DOCUMENTS:
            self._write(name, for_students((self.root / name).read_text(encoding="utf-8")))
        for path in sorted(self.root.glob("course/images/*")):
            self._copy(f"course/images/{path.name}", f"course/images/{path.name}")
        self._write("glossary.md", glossary_page(self.root))
        self._write("syllabus.md", syllabus_page(self.root))
        self._write_reference()
        self._write("index.md", self._home())
        self._write_static()

    def build(self) -> None:
        """The site, from the pages.

        Raises:
            AuthoringError: Sphinx has something to say about them.
        """
        from sphinx.application import Sphinx
        from sphinx.util.console import nocolor

        nocolor()
        warnings = io.StringIO()
        shutil.rmtree(self.target, ignore_errors=True)
        app = Sphinx(
            srcdir=self.pages,
            confdir=None,
            outdir=self.target,
            doctreedir=self.pages / ".doctrees",
            buildername="html",
            confoverrides=CONFIG,
            status=None,
            warning=warnings,
            parallel=_PROCESSES,
        )
        app.build()
        if found := warnings.getvalue().strip():
            raise AuthoringError(found)

    def _exercises(self) -> list[Path]:
        """The notebooks of the exercises, as students get them."""
        return sorted(self.root.glob("exercises/*/[0-9]*.ipynb"))

    def _home(self) -> str:
        """What the README says to students, and what the navigation lists."""
        readme = for_students((self.root / "README.md").read_text(encoding="utf-8"))
        lists = {
            "To look up": ["syllabus", "glossary", "ANYWHERE", "docker/README", "course/anywhere"],
            "Lessons": [
                f"{each.number} {each.promise.short_title} <course/{each.name}>" for each in read_lessons(self.root)
            ],
            "Exercises": [f"exercises/{path.stem}/{path.stem}" for path in self._exercises()],
            "The package": [f"reference/{name}" for name in (*PAGES, *FOLDERS)],
        }
        home = _LICENSE.sub(r'<a href="\2.txt">\1</a>', readme)
        return "\n".join([home, *(_toctree(caption, names) for caption, names in lists.items())])

    def _write_reference(self) -> None:
        for name, text in reference_pages(self.root / "distlib").items():
            self._write(f"reference/{name}.md", text)

    def _write_static(self) -> None:
        for name in ("LICENSE", "LICENSE-prose"):
            self._copy(name, f"_extra/{name}.txt")
        for part in _PARTS:
            self._write(f"_static/{part}.css", (BROWSER / f"{part}.css").read_text(encoding="utf-8"))
        parts = [as_classic_script(part, (BROWSER / f"{part}.js").read_text(encoding="utf-8")) for part in _PARTS]
        self._write("_static/site.js", "\n".join([*parts, (_OWN / "site.js").read_text(encoding="utf-8")]))
        self._write("_static/site.css", (_OWN / "site.css").read_text(encoding="utf-8"))

    def _notebook(self, name: str, page: NotebookPage) -> None:
        self._write(name, page.text)
        for image, content in page.images.items():
            path = self.pages / "_static" / "runs" / image
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _write(self, name: str, text: str) -> None:
        path = self.pages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _copy(self, name: str, target: str) -> None:
        (self.pages / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.root / name, self.pages / target)


def as_classic_script(part: str, module: str) -> str:
    """A JavaScript module as a script that also runs in a page opened from a disk, where browsers load no modules.

    Raises:
        ValueError: the module exports something else than one default.
    """
    if module.count("export default {") != 1 or "\nimport " in module:
        raise ValueError(f"{part}.js is expected to have one 'export default {{' and no import")
    named = module.replace("export default {", f"(window.distlibParts ??= {{}})[{json.dumps(part)}] = {{")
    return f"(() => {{\n{named}\n}})();"


def _toctree(caption: str, names: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", ":titlesonly:", f":caption: {caption}", "", *names, "```", ""])
