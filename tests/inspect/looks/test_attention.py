"""Figures of attention for every kind of model: what they show, that they are drawn, and which inputs are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.checkpoints.preparation import read_preparation
from glassformer.data.seasons import seasons
from glassformer.data.series import Scaler
from glassformer.errors import InputError
from glassformer.inspect.looks.attention import attention_maps, picture_attention, picture_input
from glassformer.inspect.looks.examples import example_image, example_window
from glassformer.inspect.looks.patches import layer_or_rollout, over_patches, over_time
from glassformer.inspect.looks.rollout import rollout
from glassformer.inspect.looks.rollout_picture import picture_rollout, picture_text_rollout, rollout_maps
from glassformer.predict.images import ImagePreparer, Picture
from glassformer.predict.prepare import text_preparer
from glassformer.predict.series import Scale, SeriesPreparer, read_scale
from glassformer.tasks import settings as tasks
from glassformer.tasks.images import ImageClasses
from glassformer.tasks.registry import make_task
from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.translate import Translate
from glassformer.training.task import Task

HEADS = 2

SMALL = {"d_model": 12, "num_heads": HEADS, "num_layers": 2, "out": Path("unused")}

TEXT = "May 1st, 2031"


def is_picture(path: Path) -> bool:
    from PIL import Image

    with Image.open(path) as picture:
        colours = picture.convert("RGB").resize((64, 64)).getcolors(64 * 64)
    return colours is not None and len(colours) > 20


@pytest.fixture(scope="module")
def translator() -> Translate:
    made = make_task(tasks.TranslateSettings(**SMALL, examples=60))
    assert isinstance(made, Translate)
    made.model.eval()
    return made


def saved(task: Task, folder: Path) -> Path:
    gf.save(task.model, folder, tokenizer=task.tokenizer)
    task.write_beside(folder)
    return folder


@pytest.fixture(scope="module")
def seer(tmp_path_factory: pytest.TempPathFactory) -> tuple[gf.Transformer, Path]:
    task = make_task(tasks.ImagesSettings(**SMALL))
    return task.model.eval(), saved(task, tmp_path_factory.mktemp("seer"))


@pytest.fixture(scope="module")
def forecaster(tmp_path_factory: pytest.TempPathFactory) -> tuple[gf.Transformer, Path]:
    task = make_task(tasks.ForecastSettings(**SMALL, length=50, horizon=4, patch=8, stride=4))
    return task.model.eval(), saved(task, tmp_path_factory.mktemp("forecaster"))


@pytest.fixture(scope="module")
def reader(translator: Translate) -> gf.Transformer:
    """An encoder with the same vocabulary and 32 learned positions."""
    stack = gf.StackConfig(d_model=12, num_layers=2, num_heads=HEADS, positions="learned", max_len=32)
    config = gf.TransformerConfig(encoder=stack, vocab_size=len(translator.tokenizer), head="none")
    return gf.Transformer(config).eval()


@pytest.fixture(scope="module")
def writer(translator: Translate) -> gf.Transformer:
    """A decoder with the same vocabulary and 32 learned positions."""
    torch.manual_seed(1)
    stack = gf.StackConfig(d_model=12, num_layers=2, num_heads=HEADS, positions="learned", max_len=32)
    return gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=len(translator.tokenizer))).eval()


def test_a_decoder_alone_is_watched_over_prompt_and_continuation(writer: gf.Transformer, translator: Translate) -> None:
    tokenizer = translator.tokenizer
    maps = attention_maps(text_preparer(writer, tokenizer), TEXT, layer=0)
    prompt = tokenizer.tokens(tokenizer.ids(TEXT))
    assert maps.columns[: len(prompt)] == prompt
    assert len(maps.columns) == min(32, len(prompt) + 24) - 1
    assert maps.rows[:-1] == maps.columns[1:]
    assert maps.read_as[0] == "written"
    assert not maps.weights.triu(diagonal=1).any()
    torch.testing.assert_close(maps.weights.sum(dim=2), torch.ones(HEADS, len(maps.rows)))


def test_a_prompt_that_fills_the_model_is_read_to_its_end(writer: gf.Transformer, translator: Translate) -> None:
    tokenizer = translator.tokenizer
    text = "1 " * 40
    while len(tokenizer.ids(text)) > 32:
        text = text.strip()[:-1]
    assert len(tokenizer.ids(text)) == 32
    prepared = text_preparer(writer, tokenizer).prepare(text, new_tokens=24)
    assert prepared.arguments["input_ids"].tolist() == [tokenizer.ids(text)[:-1]]


@pytest.mark.parametrize("num_beams", [1, 3])
def test_maps_are_of_the_translation_that_was_chosen(translator: Translate, num_beams: int) -> None:
    model, tokenizer = translator.model, translator.tokenizer
    before = model.config
    model.config = before.replace(generation=before.generation.replace(num_beams=num_beams))
    try:
        maps = attention_maps(text_preparer(model, tokenizer), TEXT, part="cross")
        encoded = tokenizer.encode([TEXT])
        ids = gf.generate(model, encoded.input_ids, attention_mask=encoded.attention_mask)
    finally:
        model.config = before
    assert maps.rows == tokenizer.tokens(ids[0, 1:])
    with torch.no_grad(), gf.record(model) as seen:
        model(encoded.input_ids, encoded.attention_mask, decoder_input_ids=ids[:, :-1])
    torch.testing.assert_close(maps.weights, seen["decoder.blocks.1.cross"][0])


def test_text_rollout(translator: Translate, reader: gf.Transformer) -> None:
    tokenizer = translator.tokenizer
    for model in (translator.model, reader):
        maps = rollout_maps(text_preparer(model, tokenizer), TEXT)
        encoded = tokenizer.encode([TEXT])
        with torch.no_grad(), gf.record(model, attention="encoder.*") as seen:
            model.encode(encoded.input_ids, encoded.attention_mask)
        expected = rollout(seen[f"encoder.blocks.{layer}.attn"] for layer in range(2))
        torch.testing.assert_close(maps.weights, expected)
        assert maps.rows == maps.columns == tokenizer.tokens(encoded.input_ids[0])


def test_the_class_token_over_the_patches(seer: tuple[gf.Transformer, Path]) -> None:
    model, folder = seer
    picture = example_image(folder)
    reading = ImagePreparer(model, read_preparation(folder, model.config)).prepare(picture)
    np.testing.assert_array_equal(reading.pixels, picture.pixels)
    with torch.no_grad(), gf.record(model) as seen:
        reading.run(model)
    weights = seen["encoder.blocks.1.attn"][0]  # (H, T, T)
    shown = over_patches(model, layer_or_rollout(model, reading, 1))
    side = model.config.image.size // model.config.image.patch  # type: ignore[union-attr]
    assert shown.shape == (HEADS, side, side)
    for y, x in ((0, 0), (side - 1, 0), (1, side - 1)):
        torch.testing.assert_close(shown[:, y, x], weights[:, 0, 1 + y * side + x])


def test_without_a_class_token_it_is_the_mean_over_the_patches() -> None:
    stack = gf.StackConfig(d_model=12, num_layers=1, num_heads=HEADS)
    image = gf.ImageConfig(size=8, patch=4, channels=1, class_token=False)
    model = gf.Transformer(gf.TransformerConfig(encoder=stack, image=image, head="none"))
    weights = torch.rand(1, HEADS, 4, 4)
    torch.testing.assert_close(over_patches(model, weights), weights[0].mean(dim=1).view(HEADS, 2, 2))


def test_values_in_several_patches_get_their_mean_and_those_in_none_nothing() -> None:
    series = gf.SeriesConfig(length=7, patch=4, stride=2)  # the first value is in no patch
    weights = torch.rand(2, HEADS, 2, 2)
    shares, patches = over_time(weights, series), weights.mean(dim=2)
    assert shares.shape == (2, HEADS, 7)
    assert shares[..., 0].isnan().all()
    torch.testing.assert_close(shares[..., 1], patches[..., 0])
    torch.testing.assert_close(shares[..., 3], patches.mean(dim=2))
    torch.testing.assert_close(shares[..., 6], patches[..., 1])


def test_a_series_is_read_at_the_scale_of_the_training(forecaster: tuple[gf.Transformer, Path]) -> None:
    model, folder = forecaster
    scale = read_scale(folder)
    assert scale is not None
    reading = SeriesPreparer(model, scale).prepare(seasons())
    assert reading.window is not None
    values = reading.window.values
    np.testing.assert_array_equal(values, seasons().values[-50:])
    torch.testing.assert_close(reading.arguments["past_values"][0], torch.tensor(scale.scaler.scale(values)))


@pytest.mark.parametrize(
    "chosen", [{}, {"head": 1, "layer": 0}, {"average": True}, None], ids=lambda chosen: " ".join(chosen or ["rollout"])
)
def test_every_shape_of_model_is_drawn(
    chosen: dict[str, Any] | None,
    translator: Translate,
    reader: gf.Transformer,
    writer: gf.Transformer,
    seer: tuple[gf.Transformer, Path],
    forecaster: tuple[gf.Transformer, Path],
    tmp_path: Path,
) -> None:
    for number, model in enumerate((translator.model, reader, writer)):
        path = tmp_path / f"text{number}.png"
        if chosen is None:
            picture_text_rollout(text_preparer(model, translator.tokenizer), TEXT, path)
        else:
            picture_attention(model, translator.tokenizer, TEXT, path, **chosen)
        assert is_picture(tmp_path / f"text{number}.png")
    for name, (model, folder) in {"seer": seer, "forecaster": forecaster}.items():
        if chosen is None:
            picture_rollout(model, folder, "example", tmp_path / f"{name}.png")
        else:
            picture_input(model, folder, "example", tmp_path / f"{name}.png", **chosen)
        assert is_picture(tmp_path / f"{name}.png")


def test_an_image_file_and_a_run_that_held_images_out(
    seer: tuple[gf.Transformer, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    model, folder = seer
    Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).save(tmp_path / "mine.png")
    picture_input(model, folder, str(tmp_path / "mine.png"), tmp_path / "out.png")
    assert is_picture(tmp_path / "out.png")
    task = make_task(tasks.ImagesSettings(**SMALL))
    assert isinstance(task, ImageClasses)
    monkeypatch.setattr("glassformer.inspect.looks.examples.task_to_score", lambda folder: task)
    (tmp_path / "run.json").touch()
    found = example_image(tmp_path)
    assert found.name == f"held out: {task.judged.labels[0]}"
    np.testing.assert_array_equal(found.pixels, task.judged.take([0])[0, 0])


def test_the_built_in_series_has_as_many_channels_as_the_model_reads(tmp_path: Path) -> None:
    stack = gf.StackConfig(d_model=12, num_layers=1, num_heads=HEADS)

    def model(channels: int | None) -> gf.Transformer:
        series = gf.SeriesConfig(length=48, patch=8, horizon=4, channels=channels)
        return gf.Transformer(gf.TransformerConfig(encoder=stack, series=series, head="forecast")).eval()

    built_in = seasons()
    for channels, expected in ((1, built_in.names[:1]), (3, built_in.names[:3]), (None, built_in.names)):
        window = example_window(SeriesPreparer(model(channels), None), tmp_path).window
        assert window is not None
        assert window.names == expected
        np.testing.assert_array_equal(window.values, built_in.values[-48:, : len(expected)])
        picture_input(model(channels), tmp_path, "example", tmp_path / "out.png")
    scale = Scale(("price",), Scaler.fit(built_in.values[:, 2:3]))
    found = example_window(SeriesPreparer(model(1), scale), tmp_path).window
    assert found is not None
    assert found.names == ("price",)
    with pytest.raises(InputError, match="this model reads 9 channels, but the built-in series has 7"):
        example_window(SeriesPreparer(model(9), None), tmp_path)


def test_a_series_of_numbers_for_a_model_that_classifies_them(tmp_path: Path) -> None:
    stack = gf.StackConfig(d_model=12, num_layers=2, num_heads=HEADS)
    series = gf.SeriesConfig(length=12, patch=4)
    model = gf.Transformer(gf.TransformerConfig(encoder=stack, series=series, head="class", num_classes=2)).eval()
    scale = Scale(("value",), Scaler(np.array([1.0], dtype=np.float32), np.array([2.0], dtype=np.float32)))
    reading = SeriesPreparer(model, scale).prepare([3.0] * 12)
    assert reading.arguments["past_values"].unique().tolist() == [1.0]
    picture_input(model, tmp_path, "1 2 3 4 5 6 5 4 3 2 1 0", tmp_path / "out.png")
    assert is_picture(tmp_path / "out.png")
    with pytest.raises(InputError, match="the series has 2 values: expected 12 numbers, without the label"):
        picture_input(model, tmp_path, "1, 2", tmp_path / "out.png")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"text": "  "}, "the text is empty: write at least a word"),
        ({"text": "1 " * 40}, r"the text has \d+ tokens: expected at most 32. Shorten it"),
        ({"part": "cross"}, "this model has no cross-attention: it is only an encoder. Leave --part cross out"),
        ({"part": "decoder"}, "this model has no decoder: it is only an encoder"),
        ({"layer": 2}, "--layer is 2: expected 0 to 1 for this model"),
        ({"head": -1}, "--head is -1: expected 0 to 1 for this model"),
        ({"head": 0, "average": True}, "--head and --average were both given"),
    ],
    ids=str,
)
def test_refused_texts(
    given: dict[str, Any], said: str, reader: gf.Transformer, translator: Translate, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        picture_attention(
            reader, translator.tokenizer, given.pop("text", TEXT), tmp_path / "out.png", **given
        )  # fmt: skip
    assert not (tmp_path / "out.png").exists()


def test_cross_attention_has_no_rollout(translator: Translate) -> None:
    with pytest.raises(InputError, match="--part cross has no rollout"):
        rollout_maps(text_preparer(translator.model, translator.tokenizer), TEXT, part="cross")


def test_refused_pictures_and_series(
    seer: tuple[gf.Transformer, Path], forecaster: tuple[gf.Transformer, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out.png"
    (tmp_path / "short.csv").write_text("date,load\n2024-01-01,1\n2024-01-02,2\n")
    for (model, folder), given, chosen, said in (
        (seer, "", {}, "the input is empty. Give the path of an image"),
        (seer, str(tmp_path / "none.png"), {}, "there is no such image file"),
        (seer, "example", {"part": "cross"}, "this model has no cross-attention: it is only an encoder"),
        (seer, "example", {"head": 2}, "--head is 2: expected 0 to 1 for this model"),
        (forecaster, " ", {}, "the input is empty. Give the path of a CSV file"),
        (forecaster, str(tmp_path / "none.csv"), {}, "none.csv"),
        (forecaster, str(tmp_path / "short.csv"), {}, "has 2 values, and this model reads the last 50"),
        (forecaster, "example", {"layer": 7}, "--layer is 7: expected 0 to 1"),
    ):
        with pytest.raises(InputError, match=said):
            picture_input(model, folder, given, out, **chosen)  # type: ignore[arg-type]
    assert not out.exists()


def test_a_picture_that_is_no_file(seer: tuple[gf.Transformer, Path]) -> None:
    model, folder = seer
    colours = np.full((20, 20, 3), 128, dtype=np.uint8)
    reading = ImagePreparer(model, read_preparation(folder, model.config)).prepare(Picture("grey", colours))
    assert reading.name == "grey"
    assert reading.pixels is not None
    assert set(reading.pixels.ravel().tolist()) == {128}


@pytest.fixture(scope="module")
def dates() -> Translate:
    return Translate(TranslateSettings(out=Path("unused"), examples=60, d_model=16, num_heads=2, num_layers=2))


@pytest.mark.parametrize("part", ["cross", "encoder", "decoder"])
def test_maps_carry_the_tokens_they_are_about(dates: Translate, part: str) -> None:
    """The maps equal those recorded in one pass over the finished translation."""
    model, tokenizer, text = dates.model.eval(), dates.tokenizer, "May 1st, 2031"
    maps = attention_maps(text_preparer(model, tokenizer), text, part=part, layer=0)  # type: ignore[arg-type]
    encoded = tokenizer.encode([text])
    ids = gf.generate(model, encoded.input_ids, attention_mask=encoded.attention_mask)
    with gf.record(model) as seen:
        model(encoded.input_ids, encoded.attention_mask, decoder_input_ids=ids[:, :-1])
    name = {"cross": "decoder.blocks.0.cross", "encoder": "encoder.blocks.0.attn", "decoder": "decoder.blocks.0.attn"}
    torch.testing.assert_close(maps.weights, seen[name[part]][0], rtol=1e-4, atol=1e-5)
    source, target = tokenizer.tokens(encoded.input_ids[0].tolist()), tokenizer.tokens(ids[0].tolist())
    assert maps.rows == (source if part == "encoder" else target[1:])
    assert maps.columns == (target[:-1] if part == "decoder" else source)
    assert maps.weights.shape == (2, len(maps.rows), len(maps.columns))
