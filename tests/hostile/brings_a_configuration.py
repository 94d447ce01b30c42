# Deserves: everything but naive_all_reduce
# Settings for nbgrader, Jupyter and IPython lie beside the notebook.
def hand_in(work):
    work.spoil("naive_all_reduce")
    for name in ("nbgrader_config.py", "jupyter_config.py", "ipython_config.py"):
        (work.folder / name).write_text("import os; os._exit(7)\n")
