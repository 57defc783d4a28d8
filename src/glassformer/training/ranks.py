"""The processes of a training, one or those that `torchrun` started, and how the model is distributed over them.

With DDP every process has the whole model, with FSDP2 (`--shard`) a shard. Both average gradients over the processes.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import register_dataclass

from glassformer.checkpoints.load import usable_device
from glassformer.core.model import Output, Transformer
from glassformer.core.pair import Pair
from glassformer.errors import InputError, OtherProcessFailed

RANK_TIMEOUT = timedelta(hours=12)
register_dataclass(Output)  # so that FSDP finds the tensors in a module's output


class Ranks:
    """The processes of a training run. A single process communicates with nobody."""

    def __init__(self, device: str | None = None) -> None:
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        name = device or ("cuda" if torch.cuda.is_available() else "cpu")
        if self.size > 1 and name == "cuda":
            name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        self.device = usable_device(name)
        self.is_first = self.rank == 0
        if self.size > 1:
            on_gpu = self.device.type == "cuda"
            if on_gpu:
                torch.cuda.set_device(self.device)
            # The others wait while the first process reads the data or scores, which may take long.
            dist.init_process_group("nccl" if on_gpu else "gloo", timeout=RANK_TIMEOUT)

    def close(self) -> None:
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()

    def total(self, value: float) -> float:
        """The sum over all processes."""
        return self._reduced([value], dist.ReduceOp.SUM)[0]

    def largest(self, *values: float) -> list[float]:
        return self._reduced(list(values), dist.ReduceOp.MAX)

    def add_up(self, tensor: Tensor) -> None:
        """Sums this tensor over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def _reduced(self, values: list[float], operation: Any) -> list[float]:
        if self.size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, operation)
        return [float(value) for value in tensor]

    def from_first(self, value: Any) -> Any:
        """Broadcasts the value of the first process."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device if self.device.type == "cuda" else None)
        return box[0]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Inside, an error in one process stops all of them. The first to fail reports why."""
        failed: Exception | None = None
        try:
            yield
        except Exception as error:
            failed = error
        first = self.size - self.largest(0 if failed is None else self.size - self.rank)[0]
        if failed is not None and first == self.rank:
            raise failed
        if first < self.size:
            raise OtherProcessFailed

    def spread(self, model: Transformer | Pair, *, shard: bool) -> nn.Module:
        """Wraps the model in DDP or FSDP2. The weights start as those of the first process."""
        if shard and isinstance(model, Pair):
            raise InputError("--shard works for a single model, and this is a pair of two. Use --no-shard")
        if shard and self.size == 1:
            raise InputError(
                "--shard needs several processes, and there is one. Start the training with torchrun, or use --no-shard"
            )
        if self.size == 1:
            return model
        for parameter in model.parameters():
            dist.broadcast(parameter.data, src=0)
        if not shard:
            return DistributedDataParallel(model)
        mesh = init_device_mesh(self.device.type, (self.size,))
        assert isinstance(model, Transformer)
        for stack in (model.encoder, model.decoder):
            for block in stack.blocks if stack is not None else ():
                fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model

    @contextmanager
    def sending(self, model: nn.Module, yes: bool) -> Iterator[None]:
        """Averages gradients over the processes only in the last part of a batch."""
        if isinstance(model, FSDPModule):
            model.set_requires_gradient_sync(yes)
        waits = isinstance(model, DistributedDataParallel) and not yes
        with model.no_sync() if waits else nullcontext():  # type: ignore[operator]
            yield


def gather_weights(model: nn.Module) -> dict[str, Tensor]:
    """All weights by name, on the CPU. Those of a sharded model are gathered in the first process only."""
    values: Any = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    return dict(values)
