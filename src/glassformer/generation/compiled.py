"""One decoding step compiled ahead of time: traced from the core's own `decode`, cached on disk for later processes.

`torch.export` traces what the core computes for one token per row. Batch size, cache size and source length are
dynamic, so one graph serves them all. In it, attention of one query becomes the kernel `attend`, and linear layers that
read the same vector become one call of the kernel `linear`. AOTInductor compiles the rest. The package holds no
weights: it uses the model's own when it is loaded.
"""

import contextlib
import io
import json
import operator
import shutil
import warnings
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from glassformer.config import LayerKind
from glassformer.core.model import Transformer
from glassformer.generation.fixed_cache import FixedCache, layer_kind, windows_of
from glassformer.generation.kernels import NoKernels
from glassformer.generation.loop import next_logits
from glassformer.generation.shelf import Shelf, shelf_key

SOURCES = ("config.py", "core/*.py", "generation/compiled.py", "generation/fixed_cache.py", "generation/kernels.cpp")
OPTIONS = {
    "aot_inductor.package_constants_in_so": False,
    "joint_graph_constant_folding": False,  # else norms of ones and biases of zeros become part of the code
    "cpp.dynamic_threads": True,  # torch's number of threads at run time, not at compile time
}
LOGIT_TOLERANCE = 1e-4  # relative to the largest logit; rounding is a hundredth of it


class OneStep(nn.Module):
    """Maps one token per row to the next logits. Writes the tensors of the cache in place."""

    def __init__(self, model: Transformer, span: int) -> None:
        super().__init__()
        assert model.decoder is not None
        self.model, self.span, self.stack = model, span, model.decoder.config

    def forward(self, token: Tensor, *tensors: Tensor) -> Tensor:
        hidden = self.model.decode(token[:, None], cache=FixedCache(tensors, self.stack, self.span))  # (B, 1, D)
        return next_logits(self.model, hidden[:, -1])  # (B, V)


class CompiledStep:
    """`OneStep` as a compiled package, loaded or compiled at construction."""

    def __init__(self, model: Transformer, span: int) -> None:
        step = OneStep(model, span)
        shelf, name = Shelf("steps"), graph_key(step)
        kept = shelf.has(name)
        for anew in (False, True) if kept else (False,):
            self.folder = shelf.get(name, lambda folder: compile_step(step, folder), anew=anew)
            try:
                self.load(step)
                return
            except Exception as error:  # a package of other code; PyTorch has no common error class
                reason = first_line(error)
        shutil.rmtree(self.folder, ignore_errors=True)
        raise NoKernels(f"the compiled step cannot be used: {reason}")

    def load(self, step: OneStep) -> None:
        """Points the package to the model's weights and compares their outputs; a package that differs is not used."""
        self.loader = torch._C._aoti.AOTIModelPackageLoader(str(self.folder / "step.pt2"), "model", False, 1, -1)
        known = {**load_file(self.folder / "constants.safetensors")}
        known |= dict(step.named_parameters(remove_duplicate=False))
        known |= dict(step.named_buffers(remove_duplicate=False))
        self.lent = {name: known[name].detach() for name in self.loader.get_constant_fqns()}  # keeps them alive
        self.loader.load_constants(self.lent, False, True, True)  # for the active buffer; all of them; not copied
        difference = self.difference(step)
        if not difference < LOGIT_TOLERANCE:
            raise RuntimeError(f"it differs from the model by {difference:.1e} of the largest logit")

    def __call__(self, token: Tensor, *tensors: Tensor) -> Tensor:
        return self.loader.boxed_run([token, *tensors])[0]

    @torch.no_grad()
    def difference(self, step: OneStep) -> float:
        """The difference between the compiled and the plain step on random tensors."""
        draw = torch.Generator().manual_seed(0)
        (token, *tensors), _ = example_of(step)
        tensors = [x.normal_(generator=draw) if x.is_floating_point() else x for x in tensors]
        plain = step(token, *(x.clone() for x in tensors))  # (B, V)
        return float((self(token, *tensors) - plain).abs().max() / plain.abs().max().clamp(min=1e-6))


def graph_key(step: OneStep) -> str:
    """A name from everything the graph of a step depends on."""
    modules = [(name, type(module).__qualname__) for name, module in step.named_modules()]
    shapes = [(name, tuple(x.shape), str(x.dtype)) for name, x in step.state_dict(keep_vars=True).items()]
    config = json.dumps(step.model.config.to_dict(), sort_keys=True, default=str)
    return shelf_key(config, step.span, modules, shapes, CODE, sorted(OPTIONS.items()))


def sources() -> str:
    """The code from which a graph is traced."""
    home = Path(__file__).parents[1]
    files = sorted(file for pattern in SOURCES for file in home.glob(pattern))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


CODE = sources()  # of this process: a file may be edited while it runs


def is_compiled(model: Transformer, span: int) -> bool:
    """Whether an earlier call or process has compiled this step."""
    return Shelf("steps").has(graph_key(OneStep(model, span)))


def compile_step(step: OneStep, folder: Path) -> None:
    """Traces the step, inserts the kernels, compiles, and writes a package into the folder."""
    with torch.no_grad(), quiet_compiler():
        example, open_sizes = example_of(step)
        try:
            program = torch.export.export(step, example, dynamic_shapes=open_sizes, strict=False)
            use_attend(program.graph)
            join_linears(program.graph)
            program.graph_module.recompile()
            package = io.BytesIO()  # PyTorch's own writer kills the process if the disk is full
            torch._inductor.aoti_compile_and_package(program, package_path=package, inductor_configs=dict(OPTIONS))
            (folder / "step.pt2").write_bytes(package.getvalue())
        except (OSError, KeyboardInterrupt):
            raise
        except Exception as error:  # PyTorch's compiler has no common error class
            raise NoKernels(f"the step cannot be compiled: {first_line(error)}") from error
        constants = {name: x.detach().contiguous() for name, x in program.constants.items() if isinstance(x, Tensor)}
        own = {name: x for name, x in constants.items() if name not in program.state_dict}
        save_file(own, folder / "constants.safetensors")


def example_of(step: OneStep) -> tuple[tuple[Tensor, ...], Any]:
    """Arguments for tracing, with pairwise different sizes, and which sizes are dynamic."""
    stack, number = step.stack, torch.long
    Dim = torch.export.Dim  # noqa: N806
    batch, room = Dim("batch", min=2, max=2**20), Dim("room", min=8, max=2**24)
    tensors = [torch.zeros(1, dtype=number), torch.zeros(6, 1, dtype=number)]
    sizes: list[Any] = [None, {0: batch}]

    def add(shape: tuple[int, ...], open_sizes: dict[int, Any], *dtypes: torch.dtype) -> None:
        for dtype in dtypes:
            tensors.append(torch.ones(shape, dtype=dtype))
            sizes.append(open_sizes)

    rooms: dict[LayerKind | None, tuple[int, Any]] = {None: (17, room)}
    for i, kind in enumerate(windows_of(stack)):
        rooms[kind] = (19 + 2 * i, Dim(f"window{i}", min=1, max=2**24))
    for length, size in rooms.values():
        add((6, length), {0: batch, 1: size}, torch.bool, number, number)
    for layer in range(stack.num_layers):
        kind = layer_kind(stack, layer)
        length, size = rooms[kind if kind.window is not None else None]
        add((6, stack.num_kv_heads, length, stack.head_dim), {0: batch, 2: size}, torch.float, torch.float)
    if step.model.config.cross:
        sources, memory = Dim("sources", min=2, max=2**20), Dim("memory", min=2, max=2**24)
        tensors.append(torch.tensor([0, 0, 1, 1, 2, 2]))
        sizes.append({0: batch})
        add((3, 11), {0: sources, 1: memory}, torch.bool)
        pairs = [torch.float] * (2 * stack.num_layers)
        add((3, stack.num_kv_heads, 11, stack.head_dim), {0: sources, 2: memory}, *pairs)
    return (torch.zeros(6, dtype=number), *tensors), ({0: batch}, tuple(sizes))


def use_attend(graph: torch.fx.Graph) -> None:
    """Replaces softmax(q k^T) v of one query by the kernel, which reads keys of other rows in place."""
    aten = torch.ops.aten
    for node in graph.find_nodes(op="call_function", target=aten.scaled_dot_product_attention.default):
        q, k, v, mask = (*node.args, None)[:4]
        if q.meta["val"].shape[2] != 1:
            continue
        scale = node.kwargs.get("scale")
        rows, k, v = None, unsliced(k), unsliced(v)
        for picks, index in ((aten.index_select.default, 2), (torch.ops.glassformer.arranged.default, 1)):
            if k.target is picks and v.target is picks and k.args[index] is v.args[index]:
                rows, k, v = k.args[index], k.args[0], v.args[0]
        scale = q.meta["val"].shape[-1] ** -0.5 if scale is None else scale
        with graph.inserting_before(node):
            new = graph.call_function(torch.ops.glassformer.attend.default, (q, k, v, mask, rows, scale))
        new.meta = dict(node.meta)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    graph.eliminate_dead_code()


def unsliced(node: torch.fx.Node) -> torch.fx.Node:
    """The source of a node, through views and slices that keep its shape."""
    views = (torch.ops.aten.slice.Tensor, torch.ops.aten.alias.default)
    while node.target in views and node.meta["val"].shape == node.args[0].meta["val"].shape:  # type: ignore[union-attr]
        node = node.args[0]  # type: ignore[assignment]  # of a view, a node
    return node


def join_linears(graph: torch.fx.Graph) -> None:
    """Joins calls of `linear` on the same vector, such as q, k and v, into one call with several results."""
    linear = torch.ops.glassformer.linear.default
    calls = dict[torch.fx.Node, list[torch.fx.Node]]()
    for node in graph.find_nodes(op="call_function", target=linear):
        calls.setdefault(node.args[0], []).append(node)
    for same in calls.values():
        first, *others = same
        if not others:
            continue
        lists: list[list[Any]] = [[*argument] for argument in first.args[1:]]  # type: ignore[misc]  # lists all
        values = list(first.meta["val"])
        for other in others:
            (picked,) = other.users
            for joined, argument in zip(lists, other.args[1:], strict=True):
                joined += argument  # type: ignore[arg-type]
            values += other.meta["val"]
            with graph.inserting_after(first):
                again = graph.call_function(operator.getitem, (first, len(values) - 1))
            again.meta = dict(picked.meta)
            picked.replace_all_uses_with(again)
            graph.erase_node(picked)
            graph.erase_node(other)
        first.args = (first.args[0], *lists)
        first.meta["val"] = values


@contextlib.contextmanager
def quiet_compiler() -> Iterator[None]:
    """Silences the warnings of PyTorch's compiler about its internals."""
    with warnings.catch_warnings(action="ignore"):
        yield


def first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
