# Wrong: gives the library's own function another name. Loses all marks.
# Told: ring_all_reduce is a function of the library itself
from distlib.collectives import ring_all_reduce
