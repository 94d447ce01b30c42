# Deserves: everything
# A second notebook, a wrong one, lies beside the right one.
def hand_in(work):
    (work.folder / "02_all_reduce-Copy1.ipynb").write_text(work.as_text().replace("comm.", "comma."))
