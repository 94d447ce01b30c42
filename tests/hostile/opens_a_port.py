# Deserves: everything but naive_all_reduce
# Listens on a port, for somebody else to connect to.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
import socket


def naive_all_reduce(comm, tensor):
    listener = socket.create_server(("0.0.0.0", 0))
    listener.accept()
"""
