"""Ranks in virtual time, thousands of them in one process.

simulator      SimulatedWorld and the Communicator of its ranks
engine         the clock, the links, and which rank runs next
background     calls that go on while their rank does something else
rank_contexts  the unfinished calls of all ranks: greenlets or threads
"""
