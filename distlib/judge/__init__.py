"""Grading a class: the tests run here, the students' code runs in processes that can only send and receive.

remote   the judge, which is the network between those processes
sandbox  what they may see and do
"""
