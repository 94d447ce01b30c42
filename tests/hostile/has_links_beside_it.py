# Deserves: everything
# Links to a file outside, to a folder that holds it, and to nowhere; the answers are right.
def hand_in(work):
    (work.folder / "passwords").symlink_to("/etc/passwd")
    (work.folder / "circle").symlink_to("..")
    (work.folder / "nowhere").symlink_to("no-such-file")
