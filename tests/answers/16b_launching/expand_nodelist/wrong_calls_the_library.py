# Wrong: calls the library's own function. Loses all marks.
# Told: a function of the library
# Told by the judge: the library's write_out is not there
def expand_nodelist(text):
    from distlib.launch.node_list import write_out

    return write_out(text)
