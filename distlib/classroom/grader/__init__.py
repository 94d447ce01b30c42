"""Grading a class: from nbgrader's submitted/ folder to its autograded/ folder and gradebook, and a report.

    submission     what a student has handed in, read without believing, following or running any of it
    source         the instructor's notebook, as it is graded and as it was released
    transplant     the notebook that runs: the instructor's, with the student's answers in it
    examine        one submission, from its folder to a notebook that has run; in a process of its own
    class_run      all submissions, some at a time; who is graded already, who is not, who can't be
    course         nbgrader's configuration of a course, and its folders
    gradebook      marks into nbgrader's gradebook, one transaction a student
    autograded     files into nbgrader's autograded/ folder
    feedback       what students may see of a graded notebook
    class_report   the page for the instructor

The notebook runs in `distlib.judge.remote`.
"""
