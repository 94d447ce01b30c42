"""nbgrader on the server of a class, besides the course's own nbgrader_config.py: where its exchange is."""

import os

c = get_config()  # noqa: F821  (nbgrader defines it)

c.CourseDirectory.course_id = os.environ["CLASS"]
c.Exchange.root = "/exchange"
if os.path.isdir("/course/solutions"):
    c.ExchangeFactory.collect = "distlib.classroom.uploads.boxes.CollectFromBoxes"
else:
    c.CourseDirectory.student_id = os.environ["JUPYTERHUB_USER"]
    c.Exchange.assignment_dir = "/course/work/exercises"
