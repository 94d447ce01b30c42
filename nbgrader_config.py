"""nbgrader's configuration for the course. Run nbgrader from this folder. (Students may from work/, too.)

solutions/    what instructors write: solutions and hidden tests (nbgrader's source)
exercises/    what students get (nbgrader's release)
classroom/    everything nbgrader makes of a class: submitted/, autograded/, feedback/, gradebook.db
"""

import contextlib
import os
import sys
from pathlib import Path

c = get_config()  # noqa: F821  (nbgrader defines it)

# nbgrader starts the command `alembic`, which lies beside this Python.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

course = Path(__file__).absolute().parent
classroom = Path("classroom")
with contextlib.suppress(OSError):  # it is there already
    (course / classroom).mkdir(mode=0o700)  # on a shared machine other users find marks and hidden tests in it

c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.submitted_directory = str(classroom / "submitted")
c.CourseDirectory.autograded_directory = str(classroom / "autograded")
c.CourseDirectory.feedback_directory = str(classroom / "feedback")
c.CourseDirectory.solution_directory = str(classroom / "solution")
c.CourseDirectory.source_with_tests_directory = str(classroom / "source_with_tests")
c.CourseDirectory.db_url = "sqlite:///" + str(course / classroom / "gradebook.db")

# The text source of a notebook holds the solutions: it must not be copied beside the released notebook.
c.CourseDirectory.ignore = ["*.py", "*.pyc", "__pycache__", ".ipynb_checkpoints", ".DS_Store"]

# As nbgrader does it, but for the one that clears solutions: an author may give students a program to mend.
c.GenerateAssignment.preprocessors = [
    "nbgrader.preprocessors.IncludeHeaderFooter",
    "nbgrader.preprocessors.InstantiateTests",
    "nbgrader.preprocessors.LockCells",
    "distlib.classroom.grader.starting_text.ClearSolutionsToStart",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.CheckCellMetadata",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.SaveCells",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbgrader.preprocessors.ClearMarkScheme",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# What a student fetches from the exchange is put where `distlib lab` puts their copies, and submitted from there.
if (course / "work" / "exercises").is_dir():
    c.Exchange.assignment_dir = str(course / "work" / "exercises")

# Seconds for one cell. After them the cell is interrupted and loses its marks; the next cell goes on.
c.Execute.timeout = 120
c.Execute.interrupt_on_timeout = True
c.Execute.iopub_timeout = 60  # and for what a cell has printed to come, on a busy machine

# A student who deleted a test cell gets it back before grading.
c.OverwriteCells.add_missing_cells = True

# Feedback shows neither hidden tests nor what a browser would run, and the marks come first.
c.GenerateFeedback.preprocessors = [
    "distlib.classroom.grader.feedback.GetMarks",
    "distlib.classroom.grader.feedback.SafeFeedback",
]
c.GenerateFeedback.exporter_class = "distlib.classroom.grader.feedback_page.FeedbackPage"

# `nbgrader export` writes the marks here. What could not be graded has no score, and the reason beside it.
c.ExportApp.plugin_class = "distlib.classroom.grader.export.MarksExport"
c.ExportPlugin.to = str(classroom / "grades.csv")
