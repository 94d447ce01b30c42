"""The packages that the project and its build need, as lines for pip.

    python list_packages.py "tensorflow|jax"        # all but some

An image asks for them before it has the project, so that a change of the project installs nothing again.
"""

import re
import sys
import tomllib


def packages(settings: dict, without: str) -> list[str]:
    """What pyproject.toml asks for, with the extras that make up the course.

    Args:
        settings: its content.
        without: a pattern; what begins with it is left out. "" leaves out nothing.
    """
    extras = settings["project"]["optional-dependencies"]
    named = re.search(r"\[(.*)\]", extras["course"][0])[1].split(",")
    of_course = [package for name in named for package in extras[name]]
    wanted = [*settings["build-system"]["requires"], *settings["project"]["dependencies"], *of_course]
    return [package for package in wanted if not (without and re.match(without, package))]


if __name__ == "__main__":
    with open("pyproject.toml", "rb") as file:
        print(*packages(tomllib.load(file), sys.argv[1]), sep="\n")
