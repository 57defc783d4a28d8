"""`gf.pipeline` for any model: its weights, its tokenizer, and the inputs that it refuses."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from helpers.command import run
from helpers.head_checkpoints import (
    SMALL,
    bert,
    llama,
    make_tokenizer,
)
from helpers.tiny_models import rounded

import glassformer as gf
from glassformer.errors import InputError
from glassformer.predict.images import Picture


def test_a_tokenizer_that_does_not_fit_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    llama(folder)
    size = make_tokenizer(folder, "decoder", [f"<more {i}>" for i in range(60)], vocab_size=400)
    held = gf.load(folder).config.vocab_size
    assert held is not None
    assert held < size
    assert run("predict", folder, "hello") == 2
    shown = capsys.readouterr().err
    assert f"vocab_size is {held}, and the tokenizer has ids up to {size - 1}" in shown
    assert "Use the tokenizer that belongs to the model" in shown
    with pytest.raises(InputError, match=f"vocab_size is {held}"):
        gf.save(gf.load(folder), tmp_path / "saved", tokenizer=gf.load_tokenizer(folder))
    assert not (tmp_path / "saved").exists()


def test_weights_are_float32_on_the_cpu(tmp_path: Path) -> None:
    folder = llama(tmp_path)
    gf.save(gf.load(folder, dtype=torch.bfloat16), folder, tokenizer=gf.load_tokenizer(folder))
    assert gf.load(folder).head.out.weight.dtype == torch.bfloat16
    assert gf.pipeline(folder).model.head.out.weight.dtype == torch.float32


def test_one_input_has_one_answer(folder_of: Callable[[str], Path]) -> None:
    for kind, text in (("encoder", "fox"), ("encoder-decoder", "fox"), ("fill", "a [MASK]"), ("embed", "fox")):
        predict = gf.pipeline(folder_of(kind))
        assert rounded(predict(text)) == rounded(predict([text])[0])
    picture = Picture("one", np.full((8, 8), 7, dtype=np.uint8))
    predict = gf.pipeline(folder_of("image"))
    assert rounded(predict(picture)) == rounded(predict([picture])[0])


def test_bad_input_in_python(tmp_path: Path) -> None:
    predict = gf.pipeline(bert(tmp_path, "ForSequenceClassification"))
    with pytest.raises(InputError, match="max_tokens is not a known option"):
        predict(["hello"], max_tokens=3)
    with pytest.raises(InputError, match="input 2 is 3: expected a text"):
        predict(["hello", 3])
    with pytest.raises(InputError, match="the inputs are 3: expected a list of texts"):
        predict(3)
    for size in (0, -1, "2"):
        with pytest.raises(InputError, match=f"batch_size is {size!r}: expected a whole number of at least 1"):
            predict(["hello"], batch_size=size)
    with pytest.raises(InputError, match="one answer per input"):
        gf.pipeline(llama(tmp_path))(["hello"], do_sample=True, num_return_sequences=2)


def test_models_without_texts_or_images_to_classify_are_refused(tmp_path: Path) -> None:
    config = transformers.ViTConfig(**SMALL, image_size=24, patch_size=8)
    transformers.ViTModel(config).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="is a model of images with head 'pool', which a pipeline does not support"):
        gf.pipeline(tmp_path)
