# Deserves: everything
# The notebook asks for a kernel that is not there.
def hand_in(work):
    work.notebook.metadata["kernelspec"] = {"name": "ir", "display_name": "R", "language": "R"}
