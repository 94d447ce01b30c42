"""Marks as learning platforms import them: `distlib export`.

    score_table   everybody's scores in the exercises that were asked for
    canvas_file   a file for Canvas
    moodle_file   a file for Moodle

How scores are rounded stands in `distlib.classroom.rounding`.
"""
