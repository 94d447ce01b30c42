"""Lines as TensorFlow 2.21 writes them. TensorFlow is not needed."""

import pytest

from distlib.frameworks.tensorflow_ring_log import ADDS, COPIES, RingMessage, as_trace, ring_messages

TIME = "I0000 00:00:1795442962.279079   29510 ring_alg.cc"
SENT = f"{TIME}:401] DispatchSend rank=0 send key 1:100:0:0:0:3:0 chunk (139697032544064, 139697032544992) sc_idx 3"
TAKEN = f"{TIME}:421] DispatchRecv rank=1 recv key 1:100:0:0:0:3:0 chunk (1, 929) into tmp_chunk"
COPIED = f"{TIME}:401] DispatchSend rank=1 send key 1:101:0:0:1:12:1 chunk (0, 1024) sc_idx 2"
TAKEN_BACK = f"{TIME}:421] DispatchRecv rank=0 recv key 1:101:0:0:1:12:1 chunk (0, 1024) into tmp_chunk"


def test_messages_of_a_log() -> None:
    assert ring_messages(["noise", TAKEN, SENT, COPIED, f"worker 1 | {TAKEN_BACK}"]) == [
        RingMessage("1:100:0:0", 0, 1, ADDS, 3, 928),
        RingMessage("1:101:0:0", 1, 0, COPIES, 12, 1024),
    ]
    assert ring_messages([]) == []


def test_a_log_without_the_receiver_is_refused() -> None:
    with pytest.raises(ValueError, match="got none for the key 1:100:0:0:0:3:0"):
        ring_messages([SENT, TAKEN_BACK])


def test_a_trace_to_draw() -> None:
    trace = as_trace([(0, 1, 8), (1, 0, 4), (0, 1, 4)], 3)
    assert trace.bytes_sent == [12, 4, 0] and trace.bytes_received == [4, 12, 0]
    assert trace.messages_sent == [2, 1, 0]
