# Wrong: gives the library's own function another name. Loses all marks.
# Told: ring_all_reduce is a function of the library itself
# Told by the judge: a library function does the work
from distlib.collectives import ring_all_reduce
