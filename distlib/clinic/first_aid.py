"""From what a run does to the tool that says why: the tree of lesson 17."""

from __future__ import annotations

FIRST_AID = {
    "What does the run do?": {
        "stands still": {
            "Where does each rank stand? (py-spy)": {
                "in init_process_group": "a short timeout: it says how many have joined",
                "in different calls": "DETAIL names both calls; with DDP: monitored_barrier",
                "all in one call": "flight recorder: which group's call is not over?",
                "one computes": "it may be slow: look twice, then share the work evenly",
            }
        },
        "dies": {
            "What does each rank say? Read all of them": {
                "one has its own error": "start there, unless it is a timeout",
                "one says nothing": "exit status −9: killed, look at its memory; 0: it ended early",
                "8 vs 4, Aborted": "DETAIL shows both shapes and dtypes",
                "DDP: “prior iteration”": "INFO names the unused parameters",
            }
        },
        "trains wrongly": {
            "What is not as it should be?": {
                "the loss is not finite": "each rank's own loss and gradient: whose is first?",
                "weights of ranks differ": "ReplicaCheck: which parameter, which rank?",
                "samples come twice": "check_samples: which ones, on which ranks?",
                "a sum is absurd": "DETAIL compares the dtypes; then print the reduction",
                "a bad model, no error": "one process, the whole batch: is its gradient the same?",
            }
        },
    }
}
