"""A student's own course: what was read, written and handed in, what came back, and what comes next.

Everything is found in the student's own folder, `work/`, and stays there. Two things are kept there on the way, since a
notebook forgets them: what ran in it (an update clears outputs), and what the last check of an exercise said.

    work/progress/notebooks.json              what ran in each notebook, and when it was worked on
    work/progress/checks/02_all_reduce.json   what the last check said, function by function
    work/progress/places.json                 at which cell one was in each notebook

evidence         what counts as evidence of own work, and what it can bear: every claim below rests on it
lesson_promise   what a notebook promises: a title, minutes, what one can do afterwards
kept_files       JSON files in work/progress/: written at once; a torn one, or one of a newer version, is set aside
notebooks_seen   what ran in each notebook, and which one was worked on last
last_check       what the last check said
written_functions  the functions of an exercise, and its answers in words, as the student has written them
marks_back       marks, from the feedback pages that came back
predictions_made  which predictions were committed before the run
note_on_save     keeps these whenever JupyterLab saves a lesson
places           keeps where one was in a notebook, for JupyterLab's page
own_course       the whole of it, as a value, and the next step
course_reading   from a folder to that value
progress_table   shows it: as text, and as the page that stands next to the notebooks
after_check      what a check that has ended keeps, and says about the next step
run_pictures     pictures of the student's own runs, out of the outputs of a notebook
portfolio        one page to show to others: `distlib report`
"""
