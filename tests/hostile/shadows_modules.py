# Deserves: everything
# Files beside the notebook have the names of modules; the answers are right.
def hand_in(work):
    for name in ("torch", "random", "nbformat", "distlib", "sitecustomize", "usercustomize", "ast", "warnings"):
        (work.folder / f"{name}.py").write_text("raise RuntimeError('the wrong module')")
    (work.folder / "evil.pth").write_text("import os; os._exit(7)")
