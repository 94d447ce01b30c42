# Right: the recipe of DDP, in shard_map with check_vma=False.
def spmd_step(loss_of: LossOf, mesh: Mesh, rate: float) -> Step:
    axis = mesh.axis_names[0]

    def on_device(params, inputs, targets):
        loss, gradient = jax.value_and_grad(loss_of)(params, inputs, targets)
        gradient = lax.pmean(gradient, axis)
        loss = lax.pmean(loss, axis)
        return jax.tree.map(lambda p, g: p - rate * g, params, gradient), loss

    specs = {"in_specs": (P(), P(axis), P(axis)), "out_specs": (P(), P())}
    return jax.jit(shard_map(on_device, mesh=mesh, check_vma=False, **specs), donate_argnums=0)
