# Right: TensorFlow's ClusterSpec holds the cluster.
def tf_config(hosts: Mapping[str, Sequence[str]], role: str, index: int) -> str:
    spec = tf.train.ClusterSpec({name: list(addresses) for name, addresses in hosts.items() if len(addresses) > 0})
    strange = (set(hosts) | {role}) - {"chief", "worker", "ps", "evaluator"}
    if strange:
        raise ValueError(f"roles that TensorFlow does not know: {sorted(strange)}")
    if role not in spec.jobs:
        raise ValueError(f"no task has the role {role}")
    if index not in spec.task_indices(role):
        raise ValueError(f"index {index} is not one of {spec.task_indices(role)}")
    where = {}
    for job in spec.jobs:
        for number in spec.task_indices(job):
            address = spec.task_address(job, number)
            if not tf.strings.regex_full_match(address, r"[^:/\s]+:0*[1-9][0-9]{0,4}").numpy():
                raise ValueError(f"address {address} is not host:port")
            if int(address.split(":")[1]) > 65535:
                raise ValueError(f"address {address} is not host:port")
            if address in where:
                raise ValueError(f"address {address}: both {where[address]} and {(job, number)}")
            where[address] = (job, number)
    if "chief" in spec.jobs and spec.num_tasks("chief") != 1:
        raise ValueError("a cluster has at most one chief")
    return json.dumps({"cluster": spec.as_dict(), "task": {"type": role, "index": index}})
