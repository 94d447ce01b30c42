# Deserves: everything
# Saved in the old format of notebooks.
import nbformat


def hand_in(work):
    work.text = nbformat.writes(nbformat.convert(work.notebook, 3), version=nbformat.NO_CONVERT).encode()
