import json
from typing import Any

import pytest

from distlib.frameworks.tf_config import address_fault, parse_tf_config

WORKERS = {"worker": ["a:1", "b:1"]}
ALL = {"chief": ["c:2222"], "worker": ["a:1", "a:2"], "ps": ["p:1"]}
FIRST = {"type": "worker", "index": 0}


def test_a_good_one_is_read_from_text_and_from_a_dictionary() -> None:
    config = {"cluster": ALL, "task": {"type": "worker", "index": 1}}
    for parsed in (parse_tf_config(config), parse_tf_config(json.dumps(config))):
        assert parsed.cluster == {"chief": ("c:2222",), "worker": ("a:1", "a:2"), "ps": ("p:1",)}
        assert (parsed.role, parsed.index, parsed.address) == ("worker", 1, "a:2")


@pytest.mark.parametrize(
    "config, message",
    [
        ("", "not JSON"),
        (str({"cluster": WORKERS, "task": FIRST}), "not JSON: .*; json.dumps writes it, str does not"),
        ("[1]", 'should be {"cluster": …, "task": …}, got'),
        ({"task": FIRST}, 'should have a "cluster" .* trains alone'),
        ({"cluster": {}, "task": FIRST}, 'should have a "cluster"'),
        ({"cluster": WORKERS}, 'should have a "task"'),
        ({"cluster": WORKERS, "task": {"type": "worker"}}, 'should have a "task"'),
        ({"cluster": {"worker": ["a:1", "a:1"]}, "task": FIRST}, "names a:1 twice, as worker 0 and as worker 1"),
        ({"cluster": {"worker": ["a:1"], "ps": ["a:1"]}, "task": FIRST}, "twice, as worker 0 and as ps 0"),
        (
            {"cluster": WORKERS, "task": {"type": "worker", "index": 2}},
            "worker 2, .* 2 addresses of a worker: the largest index is 1",
        ),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": -1}}, "the task worker -1"),
        (
            {"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}},
            "1 address of a .*: the largest index is 0",
        ),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": "0"}}, "whole number .* got '0'"),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": True}}, "whole number"),
        ({"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}}, "2 chiefs, a:1, b:1: there is"),
        ({"cluster": {"boss": ["a:1"]}, "task": FIRST}, "unknown role 'boss' in its cluster"),
        ({"cluster": WORKERS, "task": {"type": "boss", "index": 0}}, "unknown role 'boss' in its task"),
        ({"cluster": WORKERS, "task": {"type": "ps", "index": 0}}, "the task ps 0, and only worker in its cluster"),
        ({"cluster": {"worker": "a:1"}, "task": FIRST}, "list of addresses for worker, got 'a:1'"),
        ({"cluster": {"worker": []}, "task": FIRST}, "list of addresses for worker"),
        ({"cluster": {"worker": ["A:1"], "ps": ["a:01"]}, "task": FIRST}, "twice, as worker 0 and as ps 0"),
        ({"cluster": {"worker": ["a"]}, "task": FIRST}, "addresses such as .* got 'a': its port is missing"),
        ({"cluster": {"worker": [5]}, "task": FIRST}, "got 5: it is not a text"),
    ],
)
def test_each_mistake_has_its_sentence(config: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^TF_CONFIG.*{message}"):
        parse_tf_config(config)


@pytest.mark.parametrize(
    "address", ["a:1", "10.0.0.2:65535", "node-3.rack_1.example.org:2222", "[::1]:2222", "a:02222"]
)
def test_what_is_an_address(address: str) -> None:
    assert address_fault(address) == ""


@pytest.mark.parametrize(
    "address, fault",
    [
        ("a", "its port is missing"),
        ("a:", "its port is missing"),
        ("[::1]", "its port is missing"),
        ("", "its port is missing"),
        (":2222", "its host is missing"),
        ("a:-1", "its port '-1' is not a number that is written in digits only"),
        ("a:+1", "in digits only"),
        ("a:2_2", "in digits only"),
        ("a:٢", "in digits only"),
        ("a:grpc", "in digits only"),
        ("a:0", "port 0 means any free one"),
        ("a:70000", "its port is 70000, and the largest there is is 65535"),
        ("a:65536", "the largest"),
        (" a:1", "a space"),
        ("a:1\n", "another blank"),
        ("http://a:1", "it is a URL. Leave http:// out"),
        ("a:1/", "a slash"),
        ("a:1,b:1", "a comma"),
        ("::1:2222", "An IPv6 address stands in brackets"),
        ("a:1:2", "more than one colon"),
        ("[a]:2222", "'a' is not an IPv6 address"),
        ("[::1:2222", "in brackets"),
        ("user@a:1", "'@' can't be part of"),
        (None, "not a text"),
    ],
)
def test_a_wrong_address_has_its_cause_in_words(address: object, fault: str) -> None:
    assert fault in address_fault(address)
