# Deserves: cannot be graded
# The file is in another encoding, and cut off.
def hand_in(work):
    work.text = work.as_text().encode("utf-16")[:5000]
