# Wrong: gives the library's own function another name. Loses all marks.
from distlib.collectives import ring_all_reduce
