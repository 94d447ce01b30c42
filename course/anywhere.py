# %% [markdown]
# # The course on a borrowed machine
#
# For Colab, Kaggle, or any Jupyter that somebody else has set up. Run the cell below once: it gets the course, installs
# what is missing, and checks that ranks start. What is there already, such as torch, stays as it is.
#
# On a machine of your own you don't need it: there `make lab` does all of this.

# %%
# The course's address, as you would give it to `git clone`. A fork puts its own here.
COURSE = ""

import importlib.util
import os
import subprocess
import sys


def show(*command, folder=None):
    """Run a command and show its output as it comes. Returns whether it succeeded."""
    settings = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "PYTHONUNBUFFERED": "1"}
    joined = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    joined["stdin"] = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, cwd=folder, env=settings, **joined)
    except FileNotFoundError:
        return print("This machine has no command", command[0])
    for line in process.stdout:
        print(line.decode(errors="replace"), end="")
    return process.wait() == 0


around = os.path.exists("../distlib/cli/anywhere.py")  # it lies in the course itself
FOLDER = os.path.abspath(".." if around else "distributed-training")
setup = [sys.executable, "-m", "distlib.cli.anywhere", "--leave-jupyter"]
installed = importlib.util.find_spec("distlib") is not None
NEXT = "Open a lesson, such as course/00_start_here.ipynb."


def here():
    return os.path.exists(os.path.join(FOLDER, "distlib", "cli", "anywhere.py"))


if installed and importlib.util.find_spec("distlib.communicator"):
    print("The course is installed here already: there is nothing to do.", NEXT)
elif sys.version_info < (3, 11):
    print("This is Python", sys.version.split()[0], "- the course needs 3.11 or newer.")
elif not here() and not COURSE:
    print('Put the address of the course into COURSE = "", and run this cell again.')
elif not here() and not show("git", "clone", "--quiet", "--depth=1", COURSE, FOLDER):
    print("The course did not come from", COURSE, "- the lines above say why.")
elif not here():
    print("That is not this course. Correct COURSE, and delete the folder", FOLDER)
elif show(*setup, folder=FOLDER):
    sys.path.insert(0, FOLDER)  # this kernel began before the course was there
    importlib.invalidate_caches()
    print(NEXT)

# %% [markdown]
# On Colab every notebook has a machine of its own, which is gone after some hours. There the first cell of each lesson
# must be a copy of the cell above.
