# Deserves: cannot be graded
# The file is no JSON.
def hand_in(work):
    work.text = b"PK\x03\x04 a word processor's document"
