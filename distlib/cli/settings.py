"""What JupyterLab shall do by default, for everybody, for students, and where nbgrader has no exchange.

    jupyter/everybody/     line numbers; messages wrap between words; no questions about news; our own Validate; all
                           cells of a lesson are laid out at once, so that the table of contents jumps at once
    jupyter/student/       no Formgrader, no Create Assignment, no text sources
    jupyter/no_exchange/   no list of assignments: without an exchange it only shows errors
    jupyter/no_theme/      light or dark as the browser prefers, for those who have not chosen a theme

Each of these is a folder of Jupyter configuration; a user's own configuration is left as it is.

    jupyter_data/          an extension of the page: cells wait for their kernel, a notebook opens where one was
"""

import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from jupyter_core.paths import jupyter_config_dir, jupyter_config_path
from traitlets.config import Application

SETTINGS = Path(__file__).parent / "jupyter"
DATA = Path(__file__).parent / "jupyter_data"  # with labextensions/, which JupyterLab loads as they are
EXCHANGE = "/usr/local/share/nbgrader/exchange"  # nbgrader's default


def settings_for_jupyter(environment: Mapping[str, str], course: Path, *, instructor: bool) -> dict[str, str]:
    """Variables with which JupyterLab, its terminals and its kernels find our settings and the command `distlib`.

    environment: the variables as they are. course: the course's folder, whose nbgrader_config.py counts everywhere.
    """
    folders = [SETTINGS / "everybody", course]
    if not has_theme(environment):
        folders.insert(0, SETTINGS / "no_theme")
    if not instructor:
        folders.insert(0, SETTINGS / "student")
        if not has_exchange(course):
            folders.insert(0, SETTINGS / "no_exchange")
    return {
        "JUPYTER_CONFIG_PATH": _before(folders, environment.get("JUPYTER_CONFIG_PATH", "")),
        "JUPYTER_PATH": _before([DATA], environment.get("JUPYTER_PATH", "")),
        "PATH": _before([Path(sysconfig.get_path("scripts"))], environment.get("PATH", os.defpath)),
    }


def has_theme(environment: Mapping[str, str]) -> bool:
    """Whether the user has chosen a theme, or anything else about themes, in JupyterLab."""
    own = environment.get("JUPYTERLAB_SETTINGS_DIR") or Path(jupyter_config_dir(), "lab", "user-settings")
    return Path(own, "@jupyterlab", "apputils-extension", "themes.jupyterlab-settings").exists()


def has_exchange(course: Path) -> bool:
    """Whether nbgrader, as it is configured here, has an exchange through which students hand in."""
    reader = Application()
    reader.load_config_file("nbgrader_config", path=[str(course), *jupyter_config_path()])
    root = reader.config.Exchange.get("root", EXCHANGE)
    return "ExchangeFactory" in reader.config or os.access(root, os.W_OK | os.X_OK)


def _before(folders: list[Path], others: str) -> str:
    return os.pathsep.join([*map(str, folders), *filter(None, [others])])  # an empty one would be the working folder
