"""The gradient of a loss that compares all examples of a batch, when the batch is split into parts.

GradCache (Gao et al., 2021). Accumulation and multiple processes split a batch, but a contrastive loss is not a sum
over parts. So (1) the vectors of every part are computed without a gradient, (2) the loss of all vectors together
gives a gradient for each, and (3) every part is computed again and passes its share of that gradient on to the weights.
The update is that of the whole batch at once. It costs a second forward pass, but only if there are several parts.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from glassformer.training.ranks import Ranks

Vectors = dict[str, Tensor]  # by name: one row per example, or a scalar for all; and labels


def whole_batch_backward(
    parts: Sequence[Callable[[], Vectors]],
    places: Sequence[slice],
    total: int,
    loss_of: Callable[[Vectors], Tensor],
    pass_on: Callable[[int, Tensor], None],
    ranks: Ranks,
) -> float:
    """Adds the gradient of a batch of `total` examples; this process computes those at `places`.

    Each of `parts` computes vectors, the same ones at every call. `pass_on` takes the number of a part and the scalar
    to differentiate.
    """
    if len(parts) == ranks.size == 1:
        loss = loss_of(parts[0]())
        pass_on(0, loss)
        return float(loss.detach())
    with torch.no_grad():
        known = [part() for part in parts]
    leaves: Vectors = {}
    for name, value in known[0].items():
        whole = value.detach().clone()
        if value.ndim:
            whole = value.new_zeros(total, *value.shape[1:])
            for place, vectors in zip(places, known, strict=True):
                whole[place] = vectors[name][: place.stop - place.start]
            ranks.add_up(whole)
        leaves[name] = whole.requires_grad_(whole.is_floating_point())
    loss = loss_of(leaves)
    loss.backward()
    shares = len(parts) * ranks.size
    for number, (part, place) in enumerate(zip(parts, places, strict=True)):
        passed = torch.zeros((), device=loss.device, dtype=loss.dtype)
        for name, value in part().items():
            gradient = leaves[name].grad
            if gradient is None:  # a label
                continue
            if value.ndim:
                count = place.stop - place.start
                passed = passed + (value[:count] * gradient[place]).sum() + 0.0 * value[count:].sum()
            else:
                passed = passed + value * gradient / shares
        # DDP and FSDP average gradients over the processes; here they must be summed.
        pass_on(number, passed * ranks.size)
    return float(loss.detach())
