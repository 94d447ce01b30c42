"""The student's own copies of all lessons and exercises, in the course's folder `work/`, which git ignores.

    course/02_all_reduce.ipynb        ──►  work/lessons/lesson_02_all_reduce.ipynb
    exercises/02_all_reduce/…ipynb    ──►  work/exercises/02_all_reduce/02_all_reduce.ipynb
                                           work/backups/           copies as they were before an update
                                           work/.originals/        what each copy was made from

Students open only these. So what git tracks stays as it is, and an update of the course never conflicts.

notebook_json  a notebook's cells, read and written as JSON
copy_paths     which file is a copy of which, and the links between them
merge          a new version of a notebook, with what the student has written in the old one
bring          makes the copies that are missing, and brings new versions
"""
