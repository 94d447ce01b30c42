"""From a student's notebook to the folder that is graded, and the course on its way to students.

A student, `distlib hand-in` or the last cell of an exercise:

    hand_in      checks the saved notebook, makes the file to upload (or submits it to nbgrader's exchange)
    hand_in_games    makes the file to upload of plays of the games; plays_besides: with an exercise, to an exchange
    answers      which functions are answered, by their text
    unsaved      whether the file is what the student sees
    receipt      what the student keeps; upload_folder, where
    exchange     nbgrader's exchange, where there is one

An instructor, `distlib collect` and `distlib release`:

    files        the files in folders and zip files
    owners       whose file it is: our own names, and those of learning platforms
    identities   which student of the class that is, or what to ask; origins, from whom each submission came
    handed_in_times    when it was handed in, as files or a table say
    collect      from uploads to classroom/submitted/
    release      the course for students

Both: `upload_names` of students and files, `recognize` a notebook of the course. No line of a student's code runs here.
"""
