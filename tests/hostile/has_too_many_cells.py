# Deserves: cannot be graded
# A thousand and one cells.
def hand_in(work):
    work.text = b'{"cells": [' + b'{"cell_type": "code", "source": "x = 1"},' * 1_000 + b'{"source": ""}]}'
