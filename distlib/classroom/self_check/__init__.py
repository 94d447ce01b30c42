"""A student's own look at an exercise: which functions pass their tests, and what to do next. It gives no marks.

    distlib check 02_all_reduce        the saved notebook, by the judge of `distlib grade`, without a sandbox
    check_exercise("02_all_reduce")    the functions of a running notebook, as the test cells there run them
    hint("ring_all_gather")            three hints for a function, one by one

    exercise     which notebook, its tests, and the instructor's notebook where that lies next to it
    results      what each test said, and what to do next
    check_saved  runs the tests of a saved notebook
    running      runs them on the functions of a running notebook
    table        shows the results as text and as HTML
    hints        three for each function: a nudge, the idea, the shape of the code
    validate     the button Validate of JupyterLab: nbgrader's own look, in a process of its own

Hidden tests run where the instructor's notebook is there, as in this repository. Elsewhere they run when the work is
graded.
"""
