# Right: every device makes its own step, and the new parameters are averaged.
def spmd_step(loss_of, mesh, rate):
    data = mesh.axis_names[0]

    def on_one(params, inputs, targets):
        loss, gradients = jax.value_and_grad(loss_of)(params, inputs, targets)
        mine = jax.tree.map(lambda p, g: p - rate * g, params, gradients)
        return lax.pmean(mine, data), lax.pmean(loss, data)

    return jax.jit(
        shard_map(on_one, mesh=mesh, in_specs=(P(), P(data), P(data)), out_specs=(P(), P()), check_vma=False)
    )
