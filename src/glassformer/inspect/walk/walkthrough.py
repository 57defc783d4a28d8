"""The forward pass of one head for one token, equation by equation, with the numbers of the user's text.

    show(walk(preparer, "the cat sat", layer=0, head=0, token=-1), console)

The model runs once under `gf.record`. Every vector is shown as recorded, with the line of the core that computed it;
this module only writes it out as terms that a reader can check. One attention is shown in full: the self-attention of a
stack, or the decoder's cross-attention. The layers between it and the answer are skipped.
Read next: `scene.py`, then `attention_equations.py` and `answer_equations.py`; `equations.py` formats the rows.
"""

from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from glassformer.core.embeddings import Embedding, PatchEmbedding, TokenEmbedding
from glassformer.core.feedforward import FeedForward
from glassformer.errors import InputError
from glassformer.generation.loop import evaluating
from glassformer.inspect.looks.choice import AttentionPart, check_index, stack_of
from glassformer.inspect.steps.step import line_of
from glassformer.inspect.walk.answer_equations import answer_equations
from glassformer.inspect.walk.attention_equations import attention_equations
from glassformer.inspect.walk.equations import Equation, Numbers, Walk, Worked, numbers, products
from glassformer.inspect.walk.scene import RecordedPass, norm_rows, output_of, read_by, row_of_layer, stream_before
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.images import Picture
from glassformer.predict.prepare import prepare_words
from glassformer.predict.prepared import Prepared
from glassformer.predict.texts import TextPreparer
from glassformer.watch.activations import activation_names
from glassformer.watch.record import record


@torch.no_grad()
def walk(
    preparer: TextPreparer | CaptionPreparer,
    given: str | Picture,
    *,
    layer: int = 0,
    head: int = 0,
    token: int = -1,
    part: AttentionPart | None = None,
    target: str | None = None,
    question: str | None = None,
) -> Walk:
    """The equations from a token's embedding, or from a patch of an image, to the answer.

    The decoder of a model with two stacks reads `target`, by default the text that the model generates. A model that
    answers questions about images needs a `question`. `part` is the attention to show: self-attention of the encoder or
    the decoder, or cross-attention. It defaults to the self-attention of the decoder, or of the only stack.
    """
    model = preparer.model
    part = part or ("encoder" if model.decoder is None else "decoder")
    stack = stack_of(model, part)
    check_index("layer", layer, stack.config.num_layers)
    check_index("head", head, stack.config.num_heads)
    prepared = prepare_words(preparer, given, question=question, target=target)
    source = prepared.arguments.get("input_ids")
    name, site = ("encoder" if part == "encoder" else "decoder"), ("cross" if part == "cross" else "attn")
    line, has_source = prepared.lines[name], name == "decoder" and model.config.prefix
    before = len(prepared.lines["encoder"].tokens) if has_source else 0
    row = row_of(token, len(line.tokens)) + before
    watched = {"attention": f"{name}.blocks.{layer}.{site}", "heads": [head], "rows": [row]}
    steps = [step for step in activation_names(model) if is_shown(step, name, layer, stack.config.num_layers)]
    with evaluating(model), record(model, activations=steps, **watched) as seen:  # type: ignore[arg-type]
        output = prepared.run(model)
    memory = output.encoder_last_hidden_state
    looked_at = prepared.lines["encoder"] if site == "cross" else line
    looked_at = looked_at.behind(prepared.lines["encoder"]) if has_source else looked_at
    keys = [f"{i} {word!r}" for i, word in enumerate(looked_at.names)]
    reads = stack_input(prepared, name)
    source_rows = None if memory is None else memory[0]
    scene = RecordedPass(model, seen, stack, name, site, layer, head, row, before, reads, keys, source_rows)
    equations = [*input_equations(scene), *block_equations(scene), *stack_equations(scene)]
    if name == "decoder" or model.decoder is None:
        assert output.last_hidden_state is not None
        equations += answer_equations(preparer, seen, scene.token, source, output.last_hidden_state)
    return Walk(line.names, scene.token, scene.at(site), head, equations)


def stack_input(prepared: Prepared, name: str) -> Tensor:
    """The input of a stack: the ids of its tokens (T), or the image (C, Y, X)."""
    given = prepared.arguments
    if name == "decoder" and "decoder_input_ids" in given:
        return given["decoder_input_ids"][0]
    return given["pixel_values" if "pixel_values" in given else "input_ids"][0]


def row_of(token: int, length: int) -> int:
    if not -length <= token < length:
        raise InputError(
            f"token {token} does not exist: expected 0 to {length - 1}, or -1 to -{length} to count from the end"
        )
    return token % length


def is_shown(step: str, name: str, layer: int, layers: int) -> bool:
    """Whether a step is recorded: the input, this layer, the output of the layer before and of the last, the answer."""
    kept = [f"{name}.embed*", f"{name}.placed", f"{name}.norm", f"{name}.blocks.{layer}.*", "head.*", "*logits"]
    kept += [f"{name}.blocks.{other}.*_residual" for other in (layer - 1, layers - 1)]
    return any(fnmatchcase(step, pattern) for pattern in kept)


def input_equations(scene: RecordedPass) -> list[Equation]:
    """The equations from the token's embedding, or its patch, to the input of the first block."""
    embed, start = scene.stack.embed, f"{scene.name}.embed"
    assert isinstance(embed, Embedding)
    found = scene.vector(start)
    rows: list[Numbers | Worked]
    equations = [patch_equation(scene, embed) if isinstance(embed, PatchEmbedding) else token_equation(scene)]
    if embed.positions is not None:
        position = scene.vector(f"{start}.positions")
        rows = [numbers("position", float(scene.token)), numbers("PE", position)]
        equations.append(scene.equation(f"{start}.positions", "its position", rows))
    total, rows = sum_of_input(scene, embed, found)
    placed = scene.vector(f"{scene.name}.placed")
    if f"{start}.norm" in scene.seen:
        if rows:
            made = line_of(Embedding.place, "x = x + self.positions(") if embed.positions is not None else None
            equations.append(scene.equation(f"{scene.name}.placed", "the sum", [*rows, numbers("x", total)], made=made))
        normed = scene.vector(f"{start}.norm")
        equations.append(norm_equation(scene, f"{start}.norm", "its norm", embed.norm, total, normed))
        total, rows = normed, []
    if isinstance(embed.project, nn.Linear):
        rows.append(row_of_layer("placed[0]", embed.project, 0, total, placed))
    if rows:
        rows.append(numbers("placed", placed))
        equations.append(scene.equation(f"{scene.name}.placed", "input of the first block", rows))
    if scene.layer > 0:
        name = output_of(scene, scene.layer - 1)
        equations.append(skipped_layers(scene, name, 0, scene.layer - 1))
    return equations


def token_equation(scene: RecordedPass) -> Equation:
    """The row of the embedding table for the token."""
    embed, start = scene.stack.embed, f"{scene.name}.embed"
    assert isinstance(embed, TokenEmbedding)
    found, number = scene.vector(start), int(scene.reads[scene.token])
    row = embed.tokens.weight[number]
    rows: list[Numbers | Worked] = [numbers(f"table[{number}]", row)]
    if embed.scale != 1.0:
        rows.append(Worked("x[0]", "{} * {}", [float(row[0]), embed.scale], float(found[0])))
    return scene.equation(start, "the token", [*rows, numbers("x", found)])


def patch_equation(scene: RecordedPass, embed: PatchEmbedding) -> Equation:
    """A patch, flattened and projected; or the learned vector of a class token."""
    start, image = f"{scene.name}.embed", embed.image
    found, number = scene.vector(start), scene.row - image.prefix_tokens
    if number < 0:
        return scene.equation(start, "a learned vector", [numbers("x", found)], said="x = a learned vector")
    pixels, size = embed.stem(scene.reads[None])[0], image.patch >> image.stem  # (C, Y, X)
    top, left = (size * place for place in divmod(number, image.patches_per_side))
    patch = pixels[:, top : top + size, left : left + size].flatten()  # (C*P*P)
    added = [] if embed.patches.bias is None else [float(embed.patches.bias[0])]
    product = products("x[0]", patch, embed.patches.weight[0].flatten(), float(found[0]), added=added)
    return scene.equation(start, "the patch", [numbers("patch", patch), product, numbers("x", found)])


def sum_of_input(scene: RecordedPass, embed: Embedding, token: Tensor) -> tuple[Tensor, list[Numbers | Worked]]:
    """The sum of token, segment and position embeddings, and its rows."""
    parts = [token]
    if embed.segments is not None:
        parts.append(embed.segments.weight[0])
    if embed.positions is not None:
        parts.append(scene.vector(f"{scene.name}.embed.positions"))
    total = torch.stack(parts).sum(dim=0)
    if len(parts) == 1:
        return total, []
    added = Worked("x[0]", " + ".join(["{}"] * len(parts)), [float(part[0]) for part in parts], float(total[0]))
    return total, [added]


def block_equations(scene: RecordedPass) -> list[Equation]:
    """The chosen layer: one attention in full, only the result of the other, and the feed-forward layer."""
    block, site = scene.block, scene.site
    equations = []
    if site == "cross":
        equations.append(residual_equation(scene, "attn"))
    equations += [*branch_norm(scene, site), *attention_equations(scene)]
    if block.kind == "parallel":
        return [*equations, *feedforward_equations(scene), residual_equation(scene, "attn")]
    equations.append(residual_equation(scene, site))
    if site == "attn" and block.has_cross:
        equations.append(residual_equation(scene, "cross"))
    return [*equations, *branch_norm(scene, "ffn"), *feedforward_equations(scene), residual_equation(scene, "ffn")]


def stack_equations(scene: RecordedPass) -> list[Equation]:
    """The result of the layers after the chosen one, and the final norm."""
    equations = []
    last = scene.stack.config.num_layers - 1
    if scene.layer < last:
        equations.append(skipped_layers(scene, output_of(scene, last), scene.layer + 1, last))
    if f"{scene.name}.norm" in scene.seen:
        stream, normed = scene.vector(output_of(scene, last)), scene.vector(f"{scene.name}.norm")
        name = f"{scene.name}.norm"
        equations.append(norm_equation(scene, name, "final norm", scene.stack.norm, stream, normed))
    return equations


def skipped_layers(scene: RecordedPass, name: str, first: int, last: int) -> Equation:
    """The result of layers that are not shown."""
    title = f"layers {first} to {last}" if first < last else f"layer {last}"
    return scene.equation(name, f"{title}, in the same way", [numbers(f"x after layer {last}", scene.vector(name))])


def branch_norm(scene: RecordedPass, site: str) -> list[Equation]:
    name = scene.at(f"{site}_norm")
    if scene.block.norm_order == "post" or name not in scene.seen:
        return []
    reads = "attn" if scene.block.kind == "parallel_two_norms" else site
    stream = scene.vector(stream_before(scene, reads))
    return [norm_equation(scene, name, "norm", getattr(scene.block, f"{site}_norm"), stream, scene.vector(name))]


def norm_equation(scene: RecordedPass, name: str, title: str, norm: nn.Module, x: Tensor, y: Tensor) -> Equation:
    return scene.equation(name, title, [numbers("x", x), *norm_rows(norm, x, y)])


def residual_equation(scene: RecordedPass, site: str) -> Equation:
    """The residual stream after the branch is added, and the norm if it comes after."""
    block, name = scene.block, scene.at(f"{site}_residual")
    stream, made = scene.vector(stream_before(scene, site)), scene.vector(name)
    if site == "ffn" and block.kind == "parallel_two_norms":
        stream = scene.vector(scene.at("attn_residual"))
    post_norm = scene.at(f"{site}_post_norm")
    ends = ["ffn.down"] if site == "ffn" else [f"{site}.out", *(["ffn.down"] if block.kind == "parallel" else [])]
    branches = [scene.vector(post_norm)] if post_norm in scene.seen else [scene.vector(scene.at(end)) for end in ends]
    total = torch.stack([stream, *branches]).sum(dim=0)
    rows: list[Numbers | Worked] = [numbers("x", stream), *(numbers("branch", branch) for branch in branches)]
    values = [float(part[0]) for part in (stream, *branches)]
    rows.append(Worked("x[0]", " + ".join(["{}"] * len(values)), values, float(total[0])))
    if block.norm_order == "post":
        rows += norm_rows(getattr(block, f"{site}_norm"), total, made)
    else:
        rows.append(numbers("x", made))
    title = {"attn": "self-attention", "cross": "cross-attention", "ffn": "feed-forward"}[site]
    return scene.equation(name, f"residual stream after {title}", rows)


def feedforward_equations(scene: RecordedPass) -> list[Equation]:
    ffn = scene.block.ffn
    assert isinstance(ffn, FeedForward)
    x = scene.vector(read_by(scene, "ffn"))
    up, hidden, down = (scene.vector(scene.at(f"ffn.{part}")) for part in ("up", "hidden", "down"))
    activation = scene.stack.config.activation
    equations = [scene.equation(scene.at("ffn.up"), "up", [row_of_layer("up[0]", ffn.up, 0, x, up), numbers("up", up)])]
    worked = Worked("hidden[0]", f"{activation}({{}})", [float(up[0])], float(hidden[0]))
    if ffn.gate is not None:
        gate = scene.vector(scene.at("ffn.gate"))
        rows: list[Numbers | Worked] = [row_of_layer("gate[0]", ffn.gate, 0, x, gate), numbers("gate", gate)]
        equations.append(scene.equation(scene.at("ffn.gate"), "gate", rows))
        values = [float(gate[0]), float(up[0])]
        worked = Worked("hidden[0]", f"{activation}({{}}) * {{}}", values, float(hidden[0]))
    rows = [row_of_layer("down[0]", ffn.down, 0, hidden, down), numbers("down", down)]
    return [
        *equations,
        scene.equation(scene.at("ffn.hidden"), "activation", [worked, numbers("hidden", hidden)]),
        scene.equation(scene.at("ffn.down"), "down", rows),
    ]
