"""Bad input to a model: an error that names the value, what was expected, and the next step."""

import pytest
import torch

import glassformer as gf
from glassformer.core.cache import Cache
from glassformer.errors import InputError

STACK = gf.StackConfig(d_model=12, num_layers=1, num_heads=3, max_len=8)
ids = torch.randint(0, 20, (2, 5))


def model(**changes: object) -> gf.Transformer:
    return gf.Transformer(gf.TransformerConfig.from_dict({"decoder": STACK, "vocab_size": 20, **changes}))


@pytest.mark.parametrize("wrong", [20, -1, 10**6])
def test_a_token_outside_the_vocabulary(wrong: int) -> None:
    with pytest.raises(InputError, match=rf"token ids hold {wrong}: expected ids from 0 to 19, as vocab_size is 20"):
        model()(torch.tensor([[3, wrong]]))


def test_a_segment_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="token_type_ids hold 2: expected ids from 0 to 1"):
        model(num_segments=2)(ids, token_type_ids=torch.full((2, 5), 2))
    with pytest.raises(InputError, match=r"token_type_ids have shape \(1, 1\): expected \(2, 5\)"):
        model(num_segments=2)(ids, token_type_ids=torch.zeros(1, 1, dtype=torch.long))
    with pytest.raises(InputError, match="this model has no segments"):
        model()(ids, token_type_ids=torch.zeros(2, 5, dtype=torch.long))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(2, 4, dtype=torch.bool), r"attention_mask has shape \(2, 4\): expected \(2, 5\)"),
        (torch.ones(5, dtype=torch.bool), r"attention_mask has shape \(5,\): expected \(2, 5\)"),
        (torch.ones(2, 5), r"has dtype torch.float32: expected a boolean mask, True = a token"),
        (torch.zeros(2, 5, 5, dtype=torch.bool), r"has shape \(2, 5, 5\)"),
    ],
)
def test_a_mask_of_the_wrong_shape_or_type(mask: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model()(ids, attention_mask=mask)


def test_a_mask_of_ones_and_zeros_is_taken_as_tokenizers_give_it() -> None:
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    net = model().eval()
    assert torch.equal(net(ids, attention_mask=mask).logits, net(ids, attention_mask=mask.bool()).logits)


@pytest.mark.parametrize("shape", [(0, 5), (2, 0)])
def test_an_empty_batch(shape: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=rf"the batch is empty, its shape is \({shape[0]}, {shape[1]}\)"):
        model()(torch.zeros(shape, dtype=torch.long))


def test_a_sequence_past_a_learned_table() -> None:
    net = model(decoder=STACK.replace(positions="learned"))
    long = torch.zeros(1, 9, dtype=torch.long)
    with pytest.raises(InputError, match=r"9 positions does not fit a learned table of max_len = 8\. Shorten"):
        net(long)
    kept = torch.arange(9)[None] > 0  # padding takes no position, so eight tokens fit
    assert net(long, attention_mask=kept).logits.shape == (1, 9, 20)


def test_the_wrong_input_for_the_model() -> None:
    both = model(encoder=STACK)
    with pytest.raises(InputError, match="reads input_ids or inputs_embeds: give one of them"):
        both(pixel_values=torch.zeros(1, 3, 8, 8))
    with pytest.raises(InputError, match="the decoder reads token ids or inputs_embeds"):
        both(ids)
    with pytest.raises(InputError, match="this decoder needs a memory"):
        both.decode(ids)
    with pytest.raises(InputError, match="decoder_start_token_id"):
        both(ids, labels=ids)
    with pytest.raises(InputError, match="this model has no encoder"):
        model().encode(ids)
    with pytest.raises(InputError, match="this model has no decoder"):
        gf.Transformer(gf.TransformerConfig(encoder=STACK, vocab_size=20)).decode(ids)
    with pytest.raises(InputError, match="head='none' predicts nothing"):
        model(head="none")(ids, labels=ids)
    with pytest.raises(InputError, match=r"token ids have shape \(5,\)"):
        model()(ids[0])
    image = gf.TransformerConfig(encoder=STACK, image=gf.ImageConfig(size=8, patch=4), head="class", num_classes=2)
    with pytest.raises(InputError, match=r"pixel_values have shape \(1, 3, 8, 9\)"):
        gf.Transformer(image)(pixel_values=torch.zeros(1, 3, 8, 9))
    series = gf.TransformerConfig(encoder=STACK, series=gf.SeriesConfig(length=8, patch=4), head="forecast")
    with pytest.raises(InputError, match=r"past_values have shape \(2, 7, 1\): expected \(batch, 8, channels\)"):
        gf.Transformer(series)(past_values=torch.zeros(2, 7, 1))


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (5,), (3, 5)])
def test_positions_of_the_wrong_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"position_ids have shape .*: expected \(2, 5\)"):
        model(decoder=STACK.replace(positions="rotary"))(ids, position_ids=torch.zeros(shape, dtype=torch.long))


def test_a_memory_of_another_batch() -> None:
    with pytest.raises(InputError, match="the memory has batch size 1 and the input 2"):
        model(encoder=STACK).decode(ids, encoder_last_hidden_state=torch.zeros(1, 4, 12))


def test_labels_outside_the_vocabulary_or_of_another_length() -> None:
    with pytest.raises(InputError, match=r"labels hold 99: expected 0 to 19, or -100"):
        model()(ids, labels=ids.clone().fill_(99))
    with pytest.raises(InputError, match=r"labels have shape \(2, 2\): expected \(2, 4\)"):
        model()(ids, labels=ids[:, :3])


def test_labels_that_leave_nothing_to_predict() -> None:
    with pytest.raises(InputError, match="labels have only 1 token, so there is no next token"):
        model()(ids[:, :1], labels=ids[:, :1])


def test_what_a_model_has_no_use_for_is_refused() -> None:
    with pytest.raises(InputError, match="this model has only a decoder: leave decoder_input_ids out"):
        model()(ids, decoder_input_ids=ids)
    with pytest.raises(InputError, match="this model has only an encoder: leave cache out"):
        gf.Transformer(gf.TransformerConfig(encoder=STACK, vocab_size=20))(ids, cache=gf.Cache())


def test_a_cache_of_another_source() -> None:
    net, cache = model(encoder=STACK), gf.Cache()
    with torch.no_grad():
        net.decode(ids, encoder_last_hidden_state=torch.zeros(2, 4, 12), cache=cache)
        with pytest.raises(InputError, match="the cache holds a source of length 4, not 3"):
            net.decode(ids, encoder_last_hidden_state=torch.zeros(2, 3, 12), cache=cache)


def test_a_cache_of_another_batch() -> None:
    cache, net = gf.Cache(), model()
    with torch.no_grad():
        net(ids, cache=cache)
        with pytest.raises(InputError, match="the cache has batch size 2 and the input 1"):
            net(ids[:1], cache=cache)
        assert cache.length == 5, "a refused call leaves the cache as it was"
    with pytest.raises(InputError, match="cannot crop the cache to 99"):
        cache.crop(99)


def test_a_call_that_is_refused_leaves_the_cache_as_it_was() -> None:
    net, cache = model(decoder=STACK.replace(positions="learned")).eval(), gf.Cache()
    with torch.no_grad():
        expected = net(torch.cat([ids, ids[:, :2]], dim=1)).logits[:, 5:]
        net(ids, cache=cache)
        with pytest.raises(InputError, match="does not fit a learned table"):
            net(ids, cache=cache)
        torch.testing.assert_close(net(ids[:, :2], cache=cache).logits, expected)


def test_parallel_blocks_have_no_cross_attention() -> None:
    with pytest.raises(InputError, match="cross-attention needs block='serial'"):
        gf.Stack(STACK.replace(block="parallel"), causal=True, cross=True)


DOCUMENTS = torch.tensor([[0, 0, 1, 1, 2], [0, 0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (DOCUMENTS[:, :4], r"documents have shape \(2, 4\): expected \(2, 5\)"),
        (DOCUMENTS.float(), "documents have dtype torch.float32: expected integers"),
        (torch.tensor([[0, 0, 0, 0, 0], [0, 1, 1, 0, 0]]), "documents of row 2 return to an earlier number"),
    ],
)
def test_documents_that_cannot_be_told_apart(documents: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model()(ids, documents=documents)


def test_documents_where_a_row_is_one_text() -> None:
    with pytest.raises(InputError, match="documents do not work with a cache"):
        model()(ids, documents=DOCUMENTS, cache=Cache())
    with pytest.raises(InputError, match="documents do not work with an encoder and a decoder"):
        model(encoder=STACK, decoder_start_token_id=1)(ids, documents=DOCUMENTS, labels=ids)
    with pytest.raises(InputError, match="head='class', which makes one prediction per row"):
        model(head="class", num_classes=3)(ids, documents=DOCUMENTS)
    series = model(
        encoder=STACK, decoder=None, vocab_size=None, series=gf.SeriesConfig(length=8, patch=2), head="forecast"
    )
    with pytest.raises(InputError, match="this model's encoder reads patches"):
        series(past_values=torch.randn(2, 8, 1), documents=DOCUMENTS)


def test_logits_at_where_they_cannot_be() -> None:
    at = torch.ones(2, 5, dtype=torch.bool)
    with pytest.raises(InputError, match="head='class' does not predict at single tokens: leave logits_at out"):
        model(head="class", num_classes=3)(ids, logits_at=at)
    with pytest.raises(InputError, match="give labels or logits_at, not both"):
        model()(ids, labels=ids, logits_at=at)
    with pytest.raises(InputError, match="give decoder_input_ids too"):
        model(encoder=STACK, decoder_start_token_id=0)(ids, labels=ids[at], logits_at=at)
    for wrong in (at[:, :4], at.long()):
        with pytest.raises(InputError, match=r"logits_at has shape .* and dtype .*: expected \(2, 5\), True and False"):
            model()(ids, logits_at=wrong)
