# Deserves: cannot be graded
# The notebook is a link to a file outside of the submission.
def hand_in(work):
    work.name = None
    (work.folder / "02_all_reduce.ipynb").symlink_to("/etc/passwd")
