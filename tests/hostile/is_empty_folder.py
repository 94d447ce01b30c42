# Deserves: cannot be graded
# Nothing was handed in.
def hand_in(work):
    work.name = None
