# Deserves: everything
# The only notebook has the name that a browser gives to a second download.
def hand_in(work):
    work.name = "02_all_reduce (1).ipynb"
