"""How a decoder reads the encoder's output: by cross-attention of another width, projected, or as a prefix."""

import pytest
import torch
from helpers.properties import randomised
from torch import Tensor

import glassformer as gf
from glassformer.core import context
from glassformer.core.cache import Cache
from glassformer.core.context import Mask
from glassformer.errors import InputError

ENCODER = gf.StackConfig(d_model=12, num_layers=2, num_heads=3, positions="learned", activation="gelu")
DECODER = gf.StackConfig(d_model=20, num_layers=2, num_heads=5, positions="learned", activation="gelu", max_len=24)
IMAGE = gf.ImageConfig(size=8, patch=4)  # 5 vectors, with the class token
JOINS = [
    ("cross", "none"),
    ("cross", "linear"),
    ("cross", "linear_norm"),
    ("prefix", "linear"),
    ("prefix", "linear_norm"),
]
PADDING = {"left": [0, 0, 1, 1, 1, 1], "right": [1, 1, 1, 1, 0, 0], "none": [1, 1, 1, 1, 1, 1]}


def captioner(memory: str = "prefix", project: str = "linear", **choices) -> gf.Transformer:
    sizes = {"image": IMAGE, "encoder": ENCODER, "decoder": DECODER, "vocab_size": 17, "decoder_start_token_id": 1}
    config = gf.TransformerConfig(**{**sizes, "memory": memory, "memory_project": project, **choices})
    return randomised(gf.Transformer(config)).eval()


def inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(2, 3, 8, 8), torch.randint(17, (2, 6))


@pytest.mark.parametrize(("memory", "project"), JOINS)
@pytest.mark.parametrize("side", PADDING)
@torch.no_grad()
def test_a_cache_changes_nothing(memory, project, side):
    model, (pixels, ids) = captioner(memory, project), inputs()
    mask = torch.tensor([PADDING[side], [1] * 6])
    whole = model(pixel_values=pixels, decoder_input_ids=ids, decoder_attention_mask=mask).last_hidden_state
    vectors, cache = model.encode(pixel_values=pixels), Cache()
    parts = [model.decode(ids[:, :3], mask[:, :3], encoder_last_hidden_state=vectors, cache=cache)]
    parts.append(model.decode(ids[:, 3:5], mask[:, :5], cache=cache))
    parts.append(model.decode(ids[:, 5:], mask, cache=cache))
    torch.testing.assert_close(torch.cat(parts, dim=1)[mask.bool()], whole[mask.bool()])
    assert cache.tokens == 6
    assert cache.length == 6 + (5 if memory == "prefix" else 0)


@pytest.mark.parametrize(("memory", "project"), JOINS)
@torch.no_grad()
def test_padding_changes_nothing(memory, project):
    model, (pixels, ids) = captioner(memory, project), inputs()
    alone = model(pixel_values=pixels[:1], decoder_input_ids=ids[:1, :4]).logits
    for side, places in (("left", slice(2, 6)), ("right", slice(0, 4))):
        mask = torch.tensor([PADDING[side], [1] * 6])
        padded = ids.clone()
        padded[0, places] = ids[0, :4]
        together = model(pixel_values=pixels, decoder_input_ids=padded, decoder_attention_mask=mask).logits
        torch.testing.assert_close(together[:1, places], alone)


@torch.no_grad()
def test_a_prefix_sees_itself_and_the_tokens_see_it_and_the_past():
    model, (pixels, ids) = captioner(), inputs()
    with gf.record(model) as seen:
        model(pixel_values=pixels, decoder_input_ids=ids)
    weights = seen["decoder.blocks.0.attn"]
    assert weights.shape == (2, 5, 11, 11)
    place = torch.arange(11)
    may_see = place[None, :] <= place[:, None].clamp(min=4)
    assert torch.equal(weights[0, 0] > 0, may_see)
    assert "decoder.blocks.0.cross" not in seen


@torch.no_grad()
def test_a_prefix_is_the_same_in_tiles(monkeypatch):
    model, (pixels, ids) = captioner(), inputs()
    mask = torch.tensor([PADDING["left"], [1] * 6])
    call = {"pixel_values": pixels, "decoder_input_ids": ids, "decoder_attention_mask": mask}
    whole = model(**call).logits
    monkeypatch.setattr(context, "TILE", 2 * 5 * 11 * 3)  # three rows at a time
    torch.testing.assert_close(model(**call).logits, whole)


def test_tiles_of_a_prefix_hold_the_keys_that_their_rows_see():
    mask = Mask(11, 11, causal=True, prefix=5)
    whole = mask.of_rows(slice(0, 11), torch.float)[0, 0]
    for rows, keys in mask.tiles(context.TILE // 3, materialises=True):
        assert not whole[rows, keys.stop :].any()
        assert not whole[rows, : keys.start].any()
        tile = mask.tile(rows, keys, torch.float)
        assert torch.equal(whole[rows, keys], whole[rows, keys] if tile is None else tile[0, 0])
        assert tile is not None or whole[rows, keys].all()


@torch.no_grad()
def test_watching_with_a_cache_continues_the_rows_of_a_prefix():
    model, (pixels, ids) = captioner(project="linear_norm"), inputs()
    names = ["*.embed", "*_residual", "memory.*"]
    with gf.record(model, activations=names) as whole:
        model(pixel_values=pixels, decoder_input_ids=ids)
        whole = dict(whole)
    with gf.record(model, activations=names) as seen:
        cache, vectors = Cache(), model.encode(pixel_values=pixels)
        model.decode(ids[:, :4], encoder_last_hidden_state=vectors, cache=cache)
        model.decode(ids[:, 4:], cache=cache)
    for name in ("decoder.blocks.1.attn", "decoder.embed", "decoder.blocks.1.ffn_residual", "memory.norm"):
        torch.testing.assert_close(seen[name], whole[name], msg=name)
    assert whole["memory.project"].shape == (2, 5, 20)


@pytest.mark.parametrize(("memory", "project"), JOINS)
def test_gradients_reach_every_weight_and_are_finite(memory, project):
    model, (pixels, ids) = captioner(memory, project).train(), inputs()
    mask = torch.tensor([PADDING["left"], PADDING["right"]])
    labels = ids.masked_fill(mask == 0, -100)
    model(pixel_values=pixels, decoder_input_ids=ids, decoder_attention_mask=mask, labels=labels).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@torch.no_grad()
def test_a_source_of_text_may_be_a_prefix_too():
    model = captioner(image=None, project="linear", target_vocab_size=19, vocab_size=23)
    source, target = torch.randint(23, (2, 7)), torch.randint(19, (2, 4))
    mask = torch.tensor([[1] * 5 + [0] * 2, [1] * 7])
    both = model(source, mask, decoder_input_ids=target).logits
    alone = model(source[:1, :5], decoder_input_ids=target[:1]).logits
    torch.testing.assert_close(both[:1], alone)
    vectors, cache = model.encode(source, mask), Cache()
    model.decode(target[:, :3], encoder_last_hidden_state=vectors, attention_mask=mask, cache=cache)
    torch.testing.assert_close(model.head(model.decode(target[:, 3:], cache=cache)), both[:, 3:])


def test_a_cache_of_one_source_refuses_another_and_a_crop_inside_the_prefix():
    model, (pixels, ids) = captioner(), inputs()
    vectors, cache = model.encode(pixel_values=pixels), Cache()
    with pytest.raises(InputError, match="this decoder needs a memory: pass the encoder's output"):
        model.decode(ids, cache=cache)
    model.decode(ids, encoder_last_hidden_state=vectors, cache=cache)
    with pytest.raises(InputError, match="the cache holds a source of length 5, not 4"):
        model.decode(ids[:, :1], encoder_last_hidden_state=vectors[:, 1:], cache=cache)
    with pytest.raises(InputError, match=r"cannot crop the cache to 3: expected 0, or 5 \(its prefix\) to 11"):
        cache.crop(3)
    cache.crop(0)
    assert cache.tokens == cache.prefix == 0


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"project": "none"}, "encoder.d_model is 12 and decoder.d_model is 20; set memory_project='linear'"),
        ({"decoder": DECODER.replace(positions="rotary")}, "decoder.positions is 'rotary'; choose 'learned'"),
        ({"decoder": DECODER.replace(layer_kinds=(gf.LayerKind(window=3),))}, "a layer with a window"),
        ({"image": None, "encoder": None}, "memory is 'prefix': it needs an encoder and a decoder"),
        ({"memory": "cross", "image": None}, "share one embedding, so set both to the same"),
        ({"memory": "suffix"}, "memory is 'suffix'"),
    ],
)
def test_configs_that_cannot_be_are_refused_by_name(choices, message):
    with pytest.raises(InputError, match=message):
        captioner(**choices)


def test_a_picture_where_none_is_read_and_none_where_one_is_needed():
    model, (pixels, ids) = captioner(), inputs()
    with pytest.raises(InputError, match=r"give only that, and not input_ids\. Pass text as decoder"):
        model(ids)
    with pytest.raises(InputError, match="reads pixel_values: give only that"):
        model(decoder_input_ids=ids)
    text = gf.Transformer(gf.TransformerConfig(decoder=DECODER, vocab_size=17))
    with pytest.raises(InputError, match="this model has only a decoder: leave pixel_values out, give input_ids"):
        text(ids, pixel_values=pixels)
    translator = gf.Transformer(gf.TransformerConfig(encoder=DECODER, decoder=DECODER, vocab_size=17))
    with pytest.raises(InputError, match="give one of them, and not pixel_values"):
        translator(pixel_values=pixels, decoder_input_ids=ids)


@pytest.mark.parametrize("project", ["none", "linear"])
@torch.no_grad()
def test_several_texts_about_a_picture_in_one_row_do_not_see_each_other(project):
    """Each has the same logits as alone, with positions from 0."""
    model = captioner("cross", project)
    pixels, ids = inputs()
    documents = torch.tensor([[0, 0, 1, 1, 1, 1], [0, 1, 1, 2, 2, 3]])
    together = model(pixel_values=pixels, decoder_input_ids=ids, documents=documents).logits
    for row, numbers in enumerate(documents):
        for number in numbers.unique():
            own = numbers == number
            alone = model(pixel_values=pixels[row : row + 1], decoder_input_ids=ids[row : row + 1, own]).logits
            torch.testing.assert_close(together[row, own], alone[0])


def test_a_prefix_belongs_to_one_text():
    pixels, ids = inputs()
    with pytest.raises(InputError, match="documents do not work with a prefix"):
        captioner()(pixel_values=pixels, decoder_input_ids=ids, documents=torch.zeros_like(ids))
