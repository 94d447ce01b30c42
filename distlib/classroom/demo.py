"""A class of three made-up students, graded by `distlib grade`: `make grade-demo`, from the project's folder.

    student-a   everything right
    student-b   some right: the naive all-reduce, the ring reduce-scatter in float32 only, the whole ring
    student-c   handed in the empty notebook

Everything is made anew in classroom/demo/, which git ignores. Look at the feedback there.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from distlib.classroom.class_folder import Classroom, marks_table, open_classroom

ASSIGNMENT = "02_all_reduce"
STUDENTS = ("student-a", "student-b", "student-c")

# Right in float32: the buffer for what comes in has torch's default dtype.
_REDUCE_SCATTER_IN_FLOAT32 = """
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        mine = chunks[(rank - 2 - step) % size]
        incoming = torch.zeros(len(mine))
        comm.exchange(chunks[(rank - 1 - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        mine += incoming
    tensor.copy_(flat.view(tensor.shape))
"""

# Wrong: adds what comes in where it should replace what was there.
_ALL_GATHER_THAT_ADDS = """
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        mine = chunks[(rank - 1 - step) % size]
        incoming = torch.empty_like(mine)
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        mine += incoming
    tensor.copy_(flat.view(tensor.shape))
"""


def grade_demo(project: Path, folder: Path) -> Classroom:
    """Make the class in `folder`, which is emptied first, grade it, and write feedback and an export of the marks."""
    shutil.rmtree(folder, ignore_errors=True)
    classroom = open_classroom(project, folder, ASSIGNMENT)
    right = classroom.solutions()
    partly = {
        **right,
        "ring_reduce_scatter": _REDUCE_SCATTER_IN_FLOAT32.strip(),
        "ring_all_gather": _ALL_GATHER_THAT_ADDS.strip(),
    }
    for student, answers in zip(STUDENTS, (right, partly, {}), strict=True):
        classroom.hand_in(student, answers)
    classroom.grade()
    classroom.nbgrader("generate_feedback", ASSIGNMENT)
    classroom.nbgrader("export")
    return classroom


def main() -> int:
    """Grade the demonstration class below the current folder, and print the marks. Returns the exit status."""
    project = Path.cwd()
    if not (project / "nbgrader_config.py").exists():
        print("run it in the project's folder (where nbgrader_config.py is): make grade-demo", file=sys.stderr)
        return 1
    print(f"Grading three made-up notebooks of {ASSIGNMENT} …", flush=True)
    classroom = grade_demo(project, project / "classroom" / "demo")
    products = (classroom.folder / "classroom").relative_to(project)
    print(marks_table(classroom, STUDENTS))
    print(f"feedback: {products}/feedback/STUDENT/{ASSIGNMENT}/{ASSIGNMENT}.html, marks: {products}/grades.csv")
    print(f"report: {(classroom.folder / 'classroom' / 'graded' / ASSIGNMENT / 'report.html').as_uri()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
