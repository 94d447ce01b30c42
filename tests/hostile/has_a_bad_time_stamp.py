# Deserves: everything
# The time stamp is no time.
def hand_in(work):
    (work.folder / "timestamp.txt").write_bytes(b"\xff tomorrow, perhaps")
