"""Captions have the same tokens as in transformers: greedy and beam search, with and without a prompt."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from helpers.reference import Checkpoint, to_left
from helpers.samples import CAPTIONERS, SAMPLES, Sample
from safetensors.torch import load_file
from torch import Tensor

import glassformer as gf
from glassformer.checkpoints.read_layout import layout_of
from glassformer.errors import InputError

Checkpoints = Callable[[Sample, str], Checkpoint]
Loaded = Callable[[Sample, str], gf.Transformer]

NEW = 9
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1},
    "beams": {"num_beams": 4},
    "beams, short": {"num_beams": 4, "length_penalty": -0.5, "early_stopping": True},
}
every_captioner = pytest.mark.parametrize(
    "sample", [sample for sample in SAMPLES if sample.model_type in CAPTIONERS], ids=str
)


@every_captioner
def test_captions(sample: Sample, checkpoint: Checkpoints, loaded: Loaded) -> None:
    """Without a prompt: up to the maximum length, and with an early end token."""
    made, model = checkpoint(sample, "language"), loaded(sample, "language")
    pixels = made.inputs["pixel_values"]
    for search in SEARCHES.values():
        settings = {"max_new_tokens": NEW, "do_sample": False, **search}
        whole = theirs(made, pixels, None, settings)
        assert trimmed(gf.generate(model, pixel_values=pixels, **settings), model) == trimmed(whole, model)
        if sample.model_type != "blip":  # transformers accepts no other end token for BLIP
            settings["eos_token_id"] = end = int(whole[0, min(3, whole.shape[1] - 1)])
            expected = trimmed(theirs(made, pixels, None, settings), model, end)
            assert trimmed(gf.generate(model, pixel_values=pixels, **settings), model, end) == expected


@every_captioner
def test_prompts(sample: Sample, checkpoint: Checkpoints, loaded: Loaded) -> None:
    """In a ragged batch, padded on either side, each prompt continues as it does alone in transformers."""
    made, model = checkpoint(sample, "language"), loaded(sample, "language")
    pixels, ids, keep = (made.call[name] for name in ("pixel_values", "decoder_input_ids", "decoder_attention_mask"))
    ids, keep = ids[:, :6], keep[:, :6].clone()
    keep[1, 4:] = keep[2, 2:] = 0
    left_ids, left_keep = to_left(ids, keep)
    for search in SEARCHES.values():
        settings = {"max_new_tokens": NEW, "do_sample": False, **search}
        right = gf.generate(model, ids, pixel_values=pixels, attention_mask=keep, **settings)
        left = gf.generate(model, left_ids, pixel_values=pixels, attention_mask=left_keep, **settings)
        assert torch.equal(right[:, :6], ids)
        assert torch.equal(right[:, 6:], left[:, 6:])
        for row in range(len(ids)):
            prompt = ids[row : row + 1, : int(keep[row].sum())]
            alone = theirs(made, pixels[row : row + 1], prompt, settings)[:, prompt.shape[1] :]
            assert trimmed(right[row : row + 1, 6:], model) == trimmed(alone, model)


@every_captioner
def test_max_length_counts_the_prompt_and_not_the_picture(
    sample: Sample, checkpoint: Checkpoints, loaded: Loaded
) -> None:
    made, model = checkpoint(sample, "language"), loaded(sample, "language")
    pixels, ids = (made.call[name] for name in ("pixel_values", "decoder_input_ids"))
    settings = {"max_length": 11, "min_length": 8, "do_sample": False, "num_beams": 1}
    ours = gf.generate(model, ids[:, :5], pixel_values=pixels, **settings)
    assert trimmed(ours, model) == trimmed(theirs(made, pixels, ids[:, :5], settings), model)
    assert ours.shape[1] <= 11


@every_captioner
def test_the_loss_is_that_of_transformers(sample: Sample, checkpoint: Checkpoints, loaded: Loaded) -> None:
    """Our labels align with the logits; GIT and BLIP shift the labels themselves."""
    made, model = checkpoint(sample, "language"), loaded(sample, "language")
    labels = made.call["decoder_input_ids"].masked_fill(made.call["decoder_attention_mask"] == 0, -100)
    moves = sample.model_type in ("git", "blip")
    with torch.no_grad():
        expected = made.model(**made.inputs, labels=labels).loss
        moved = torch.cat([labels[:, 1:], labels.new_full((len(labels), 1), -100)], dim=1) if moves else labels
        ours = model(**made.call, labels=moved).loss
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def theirs(made: Checkpoint, pixels: Tensor, prompt: Tensor | None, settings: dict[str, Any]) -> Tensor:
    if prompt is None:
        return made.model.generate(pixel_values=pixels, **settings)
    if made.sample.model_type == "vision-encoder-decoder":
        return made.model.generate(pixel_values=pixels, decoder_input_ids=prompt, **settings)
    if made.sample.model_type == "blip":  # its generate() drops the separator that a tokenizer appends
        prompt = torch.cat([prompt, torch.full_like(prompt[:, :1], 2)], dim=1)
    return made.model.generate(pixel_values=pixels, input_ids=prompt, **settings)


def trimmed(rows: Tensor, model: gf.Transformer, end: int | None = None) -> list[list[int]]:
    """Each text up to its end token: in beam search with padding id 0, transformers pads with the end token."""
    ends = set(model.config.eos_token_ids) if end is None else {end}
    texts = []
    for row in rows.tolist():
        last = next((place for place, token in enumerate(row) if place and token in ends), len(row) - 1)
        texts.append(row[: last + 1])
    return texts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder": {"model_type": "donut-swin"}}, "encoder: model_type is 'donut-swin': expected one of vit, deit"),
        ({"decoder": {"model_type": "mbart"}}, "decoder: model_type is 'mbart': expected one of gpt2, bert"),
        ({"decoder": {"add_cross_attention": False}}, "decoder: add_cross_attention is not true"),
        ({"decoder": {"cross_attention_hidden_size": 7}}, "cross_attention_hidden_size is 7: expected"),
        ({"decoder": {"scale_attn_by_inverse_layer_idx": True}}, "decoder: scale_attn_by_inverse_layer_idx is True"),
        ({"encoder": {"frames": 7}}, "encoder: unknown key 'frames'"),
        ({"model_type": "blip-2"}, "model_type is 'blip-2', which is not supported: it connects its image and text"),
        ({"model_type": "blip", "architectures": ["BlipForQuestionAnswering"]}, "it encodes questions with a second"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    values = next(s.config for s in SAMPLES if str(s) == "vision-encoder-decoder-gpt2")
    values = {"model_type": "vision-encoder-decoder", "architectures": ["VisionEncoderDecoderModel"], **values}
    for key, value in change.items():
        values[key] = {**values[key], **value} if isinstance(value, dict) else value
    with pytest.raises(InputError, match=message):
        layout_of(values, name="config.json")


def test_videos_are_refused_by_name() -> None:
    values = next(s.config for s in SAMPLES if str(s) == "git-plain")
    values = {"model_type": "git", "architectures": ["GitForCausalLM"], **values, "num_image_with_embedding": 6}
    with pytest.raises(InputError, match="num_image_with_embedding is 6"):
        layout_of(values, name="config.json")


@pytest.mark.parametrize(
    "name", ["vision-encoder-decoder-gpt2", "vision-encoder-decoder-trocr", "blip-plain", "git-plain"]
)
def test_no_value_of_any_key_gives_another_error(name: str, checkpoint: Checkpoints) -> None:
    """Neither in the whole config nor in a nested one."""
    sample = next(sample for sample in SAMPLES if str(sample) == name)
    whole = json.loads((checkpoint(sample, "language").path / "config.json").read_text())
    for place in (None, *(key for key, value in whole.items() if isinstance(value, dict))):
        values = whole if place is None else whole[place]
        for key in values:
            for value in ("abc", -3, 0, 1.5, True, None, [], [1], [[1]], {}, {"a": 1}, float("nan")):
                changed = {**values, key: value}
                with suppress(InputError):
                    layout_of(changed if place is None else {**whole, place: changed}, {}, name="config.json")


# Keys that transformers 4 wrote into every config, nested ones included.
OLD_DEFAULTS: dict[str, Any] = {
    "_name_or_path": "", "architectures": None, "bad_words_ids": None, "begin_suppress_tokens": None,
    "chunk_size_feed_forward": 0, "diversity_penalty": 0.0, "do_sample": False, "early_stopping": False,
    "encoder_no_repeat_ngram_size": 0, "exponential_decay_length_penalty": None, "finetuning_task": None,
    "forced_bos_token_id": None, "forced_eos_token_id": None, "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
    "is_encoder_decoder": False, "label2id": {"LABEL_0": 0, "LABEL_1": 1}, "length_penalty": 1.0, "max_length": 20,
    "min_length": 0, "no_repeat_ngram_size": 0, "num_beam_groups": 1, "num_beams": 1, "num_return_sequences": 1,
    "output_attentions": False, "output_hidden_states": False, "output_scores": False, "prefix": None,
    "problem_type": None, "pruned_heads": {}, "remove_invalid_values": False, "repetition_penalty": 1.0,
    "return_dict": True, "return_dict_in_generate": False, "suppress_tokens": None, "task_specific_params": None,
    "temperature": 1.0, "tf_legacy_loss": False, "tie_encoder_decoder": False, "tokenizer_class": None, "top_k": 50,
    "top_p": 1.0, "torch_dtype": None, "torchscript": False, "transformers_version": "4.27.0", "typical_p": 1.0,
    "use_bfloat16": False,
}  # fmt: skip
OLD_KEYS: dict[str, dict[str, Any]] = {
    "gpt2": {"n_ctx": 1024, "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}},
    "bert": {"position_embedding_type": "absolute", "cross_attention_hidden_size": None},
    "blip": {"text_config_dict": None, "vision_config_dict": None, "initializer_factor": 1.0},
    "blip_text_model": {"label_smoothing": 0.0, "projection_dim": 768, "add_cross_attention": False},
    "blip_vision_model": {"dropout": 0.0, "initializer_factor": 1.0, "num_channels": 3, "projection_dim": 512},
    "git": {"vision_config_dict": None, "position_embedding_type": "absolute", "classifier_dropout": None},
    "git_vision_model": {"dropout": 0.0, "initializer_factor": 1.0, "projection_dim": 512},
    "vision-encoder-decoder": {"vocab_size": 99, "processor_class": "TrOCRProcessor"},
}
OLD_BUFFERS = {
    "decoder.transformer.wte.weight": (
        "decoder.transformer.h.0.attn.bias", "decoder.transformer.h.1.crossattention.masked_bias",
        "decoder.transformer.h.1.attn.masked_bias", "decoder.transformer.h.0.crossattention.bias",
    ),
    "decoder.bert.embeddings.word_embeddings.weight": ("decoder.bert.embeddings.position_ids",),
    "text_decoder.cls.predictions.bias": ("text_decoder.bert.embeddings.position_ids",),
    "git.embeddings.word_embeddings.weight": (
        "git.embeddings.position_ids", "git.image_encoder.vision_model.embeddings.position_ids",
    ),
}  # fmt: skip


@every_captioner
def test_files_of_transformers_4(sample: Sample, checkpoint: Checkpoints, loaded: Loaded, tmp_path: Path) -> None:
    """Nested configs are complete, tensors are pickled, masks are stored, and the unused pooler may be missing."""
    made = checkpoint(sample, "language")

    def old(values: dict[str, Any]) -> dict[str, Any]:
        parts = {key: old(value) for key, value in values.items() if isinstance(value, dict) and "model_type" in value}
        return {**OLD_DEFAULTS, **values, **parts, **OLD_KEYS.get(values["model_type"], {})}

    config = old(json.loads((made.path / "config.json").read_text()))
    tensors = load_file(made.path / "model.safetensors")
    tensors = {name: value for name, value in tensors.items() if "pooler" not in name}
    for name, buffers in OLD_BUFFERS.items():
        tensors |= dict.fromkeys(buffers, torch.zeros(1)) if name in tensors else {}
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = gf.load(tmp_path)
    with torch.no_grad():
        assert torch.equal(model(**made.call).logits, loaded(sample, "language")(**made.call).logits)
    tokens = ("decoder_start_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
    new = loaded(sample, "language").config
    assert [getattr(model.config, name) for name in tokens] == [getattr(new, name) for name in tokens]


def test_another_image_size(checkpoint: Checkpoints) -> None:
    for name in ("vision-encoder-decoder-gpt2", "blip-plain", "git-plain"):
        sample = next(sample for sample in SAMPLES if str(sample) == name)
        path = checkpoint(sample, "language").path
        assert gf.load(path, image_size=20).config.image.size == 20
        pixels = torch.randn(2, 3, 20, 20)
        assert gf.generate(gf.load(path, image_size=20), pixel_values=pixels, max_new_tokens=3).shape[0] == 2


PROCESSORS = {
    "vision-encoder-decoder-gpt2": ("TrOCRProcessor", "ViTImageProcessorPil", {"size": {"height": 12, "width": 12}}),
    "blip-plain": ("BlipProcessor", "BlipImageProcessorPil", {"size": {"height": 12, "width": 12}}),
    "git-plain": (
        "GitProcessor",
        "CLIPImageProcessorPil",
        {"size": {"shortest_edge": 12}, "crop_size": {"height": 12, "width": 12}},
    ),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_folder_of_transformers_captions_a_picture_file(name: str, checkpoint: Checkpoints, tmp_path: Path) -> None:
    """`gf.pipeline` needs only the processor's files beside the weights."""
    image_module = pytest.importorskip("PIL.Image", reason="images are read with pillow")
    made = checkpoint(next(sample for sample in SAMPLES if str(sample) == name), "language")
    folder = Path(shutil.copytree(made.path, tmp_path / "model"))
    whole, images, sizes = PROCESSORS[name]
    words = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3} | {f"w{number}": number for number in range(4, 99)}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special)
    reader = getattr(transformers, images)(**sizes)
    getattr(transformers, whole)(reader, tokenizer).save_pretrained(folder)
    pixels = torch.randint(0, 255, (20, 30, 3), generator=torch.Generator().manual_seed(1)).byte().numpy()
    image_module.fromarray(pixels).save(tmp_path / "picture.png")
    with image_module.open(tmp_path / "picture.png") as image:
        read = reader(image, return_tensors="pt")["pixel_values"]
    expected = made.model.generate(pixel_values=read, max_new_tokens=7, num_beams=1, do_sample=False)
    ours = gf.pipeline(folder)([str(tmp_path / "picture.png")], max_new_tokens=7)
    assert ours == tokenizer.batch_decode(expected, skip_special_tokens=True)
