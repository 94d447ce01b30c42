# Deserves: everything but naive_all_reduce
# A folder distlib beside the notebook, whose checks check nothing.
def hand_in(work):
    work.spoil("naive_all_reduce")
    (work.folder / "distlib").mkdir()
    (work.folder / "distlib" / "__init__.py").write_text("class World: pass\nCommunicator = World\n")
    (work.folder / "distlib" / "checks.py").write_text("def check_naive_all_reduce(*a, **k): return print\n")
