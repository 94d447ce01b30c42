# Right: reduce-scatter, the update of a part, all-gather.
def spmd_step(loss_of, mesh, rate):
    axis = mesh.axis_names[0]
    n = mesh.devices.size

    def on_each(params, inputs, targets):
        loss, gradients = jax.value_and_grad(loss_of)(params, inputs, targets)
        me = lax.axis_index(axis)

        def update(p, g):
            even = p.size // n * n
            flat, slope = p.reshape(-1), g.reshape(-1)
            done = []
            if even:
                mine = lax.dynamic_slice_in_dim(flat, me * (even // n), even // n)
                mine = mine - rate * (lax.psum_scatter(slope[:even], axis, tiled=True) / n)
                done.append(lax.all_gather(mine, axis, tiled=True))
            if p.size - even:
                done.append(flat[even:] - rate * lax.pmean(slope[even:], axis))
            return jnp.concatenate(done).reshape(p.shape)

        return jax.tree.map(update, params, gradients), lax.pmean(loss, axis)

    return jax.jit(shard_map(on_each, mesh=mesh, in_specs=(P(), P(axis), P(axis)), out_specs=P(), check_vma=False))
