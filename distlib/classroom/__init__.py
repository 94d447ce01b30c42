"""What instructors and students call: marks for a class, and a look at one's own exercise.

grader        `distlib grade`: every submission of a class, judged and entered into the gradebook
self_check    `distlib check` and check_exercise: what passes, and what to do next
excerpts      the lines of a notebook that a message names
class_folder  a class in a folder, with nbgrader's own commands
demo          `make grade-demo`: a class of three
"""

from distlib.classroom.self_check.running import check_exercise

__all__ = ["check_exercise"]
