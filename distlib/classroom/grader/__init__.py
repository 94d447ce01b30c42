"""Grading a class: from nbgrader's submitted/ folder to its autograded/ folder and gradebook, and a report.

    submission     what a student has handed in, read without believing, following or running any of it
    file_kind      what a file is that should be a notebook and is not
    handed_in_time which times of handing in are believed
    definitions    which of several definitions of a function counts
    source         the instructor's notebook, as it is graded and as it was released
    transplant     the notebook that runs: the instructor's, with the student's answers in it
    examine        one submission, from its folder to a notebook that has run; in a process of its own
    verdicts       what the verdict of a test cell comes from; those that stay when a test was mended
    class_run      all submissions, some at a time; who is graded already, who is not, who can't be
    class_share    some of the submissions, on one of several machines; share_results is what they leave for class_run
    which_share    which of the machines this one is, as `--share 2/4` says
    examinees      whom both of them examine, and what from
    student_record what is noted about a submission that was graded
    course         nbgrader's configuration of a course, and its folders
    gradebook      marks into nbgrader's gradebook, one transaction a student
    private_nbgrader  its private names, and what they are for
    autograded     files into nbgrader's autograded/ folder
    check_message  a check's message in parts
    feedback       what students may see of a graded notebook
    feedback_page  the page for a student: marks, mistakes and their lines; below it the notebook (notebook_page)
    marks          sums of marks, by function
    point_sum      a sum of points of which some wait for a mark by hand
    mistakes       what went wrong in a class, by cause; who is left behind
    refused        uploads that were not collected
    alike          answers that resemble each other
    tenths         students by points, in ten columns
    class_report   for the instructor: a table, marks for a spreadsheet, a page (class_page)

The notebook runs in `distlib.judge.remote`.
"""
