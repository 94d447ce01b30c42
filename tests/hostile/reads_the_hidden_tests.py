# Deserves: everything but naive_all_reduce
# Looks for the hidden tests in the history, in hooks and in files.
def hand_in(work):
    work.spoil("naive_all_reduce")
    work.insert(CELL, before="naive_all_reduce_visible")


CELL = """
import glob

found = [text for text in globals().get("In", []) if "HIDDEN" in text]
for path in glob.glob("**/*.ipynb", recursive=True) + glob.glob("../../../../solutions/**", recursive=True):
    try:
        found.append(open(path).read())
    except OSError:
        pass
if get_ipython() is not None:
    get_ipython().events.register("pre_run_cell", lambda info: found.append(info.raw_cell))
print("FOUND", [text for text in found if "BEGIN HIDDEN TESTS" in text])
"""
