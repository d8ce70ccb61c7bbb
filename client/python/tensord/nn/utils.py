"""What is done to parameters together."""

import tensord as td


@td.no_grad()
def clip_grad_norm_(parameters, max_norm, norm_type=2.0):
    """Scale the gradients so that their common norm is at most max_norm; returns what it was."""
    parameters = [parameters] if td.is_tensor(parameters) else list(parameters)
    grads = [g for g in td._C._grads(parameters) if g is not None]
    if not grads:
        return td.tensor(0.0)
    total = td.norm(td.stack([td.norm(g, norm_type) for g in grads]), norm_type)
    scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for g in grads:
        g.mul_(scale)
    return total


@td.no_grad()
def clip_grad_value_(parameters, clip_value):
    """Hold every element of the gradients between -clip_value and clip_value."""
    for p in [parameters] if td.is_tensor(parameters) else parameters:
        if (g := p.grad) is not None:
            g.copy_(g.clamp(-clip_value, clip_value))


def parameters_to_vector(parameters):
    return td.cat([p.reshape(-1) for p in parameters])
