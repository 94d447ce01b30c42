"""From text to notebooks: what authors of lessons and exercises run. Nothing else imports it.

    course/NAME.py       -> course/NAME.ipynb            one notebook, cleared
    solutions/A/N.py     -> solutions/A/N.ipynb          the same, with nbgrader's metadata
    solutions/A/N.ipynb  -> exercises/A/N.ipynb          by nbgrader: solutions and hidden tests removed
    course/NAME.ipynb    -> slides/NAME.slides.html      a run of it: its headings and its pictures

`python -m distlib.authoring notebooks|exercises|check|slides`. contributing/notebooks.md shows the text format.
"""

from distlib.authoring.cells import AuthoringError
from distlib.authoring.notebook import notebook_from_text
from distlib.authoring.project import Project

__all__ = ["AuthoringError", "Project", "notebook_from_text"]
