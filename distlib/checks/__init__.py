"""Checks for exercises: they run a student's function on many ranks, and say like a tutor what is wrong with it.

task, venues, case, seen, report      the engine: case ──► venue ──► seen ──► remark, or on to the next
rules/       what judges are made of: values, messages, sums
plays/       what runs on each rank around the student's function
supplied     functions that a check brings itself; those of several exercises are in `helpers`

The graded functions are in `distlib.exercises`, a folder for each exercise. No module here knows one of them.
"""

from distlib.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
