"""The same input in predict, eval, inspect and explore gives the same tokens, the same call, the same answer."""

import base64
import io
import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.command import run
from helpers.tiny_models import QUESTION as COLOUR
from helpers.tiny_models import TEXT, make
from PIL import Image

import glassformer as gf
from glassformer.checkpoints.preparation import read_preparation
from glassformer.data.seasons import seasons
from glassformer.data.series import SeriesFormat, read_series
from glassformer.errors import InputError
from glassformer.explore.view.session import Session
from glassformer.figures.png import as_png
from glassformer.inspect.looks.attention import attention_maps
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.images import ImagePreparer
from glassformer.predict.prepare import prepare_words, preparer_of
from glassformer.predict.series import SeriesPreparer
from glassformer.predict.texts import TextPreparer
from glassformer.tasks.evaluate import task_to_score
from glassformer.tasks.forecast import Forecast
from glassformer.tasks.images import ImageClasses
from glassformer.tasks.settings import ForecastSettings, ImagesSettings
from glassformer.text.token_texts import short_name

FolderOf = Callable[[str], Path]
PAIR = "The quick fox\tsays hello"
HOURS = [datetime(2024, 1, 1) + timedelta(hours=i) for i in range(150)]
DAYS = [date(2024, 1, 1) + timedelta(days=i) for i in range(210) if i % 7 < 5 and i != 14]  # one Monday is a holiday
SMALL = ("--d-model=16", "--num-layers=1", "--num-heads=2", "--d-ff=16", "--warmup=1")
EVERY_DAY = SeriesFormat(calendar="every-day", fill="interpolate")
QUESTION, PASSAGE = "Who says?", "The quick fox says hello."


def names(shown: dict[str, Any], stack: str, line: str = "tokens") -> list[str]:
    """The tokens of a stack as the page shows them."""
    return [short_name(token) for token in shown["lines"][stack][line]]


def reader_of(folder: Path) -> TextPreparer:
    preparer = preparer_of(gf.load(folder).eval(), folder)
    assert isinstance(preparer, TextPreparer)
    return preparer


def write(file: Path, *lines: str) -> Path:
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_a_translation(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("encoder-decoder")
    (predicted,) = gf.pipeline(folder)([TEXT])
    shown = Session(folder).view({"text": TEXT}).shown
    maps = attention_maps(reader_of(folder), TEXT, part="cross")
    scores = gf.evaluate(folder, [write(tmp_path / "pairs.tsv", f"{TEXT}\tanything")], task="translate")
    assert predicted == shown["text"] == scores.examples[0]["translation"]
    assert maps.columns == names(shown, "encoder")
    assert maps.rows == names(shown, "decoder", "writes")


@pytest.mark.parametrize("kind", ["encoder", "twice"])
@pytest.mark.parametrize("text", [TEXT, PAIR], ids=["text", "pair"])
def test_a_class(kind: str, text: str, folder_of: FolderOf, tmp_path: Path) -> None:
    folder, parts = folder_of(kind), text.split("\t")
    (predicted,) = gf.pipeline(folder)([tuple(parts) if len(parts) > 1 else text])
    shown = Session(folder).view({"text": text}).shown
    maps = attention_maps(reader_of(folder), text, part="encoder")
    columns = ["sentence1", "sentence2"] if len(parts) > 1 else ["text"]
    row = json.dumps({**dict(zip(columns, parts, strict=True)), "label": "calm"})
    scores = gf.evaluate(folder, [write(tmp_path / "rows.jsonl", row)], task="classify")
    found = {entry["label"]: entry["score"] for entry in shown["answer"]["classes"]}
    assert found == pytest.approx(predicted.scores, rel=1e-5)
    assert predicted.label == shown["answer"]["classes"][0]["label"] == scores.examples[0]["answer"]
    assert maps.columns == names(shown, "encoder")
    task = task_to_score(folder, [tmp_path / "rows.jsonl"], task="classify")
    called = task.reader.batch(task.reader.encode(task.judged))  # type: ignore[attr-defined]
    prepared = reader_of(folder).prepare(text)
    assert torch.equal(called["input_ids"], prepared.arguments["input_ids"])


def test_how_a_text_goes_on(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("decoder")
    (predicted,) = gf.pipeline(folder)([TEXT], do_sample=False, max_new_tokens=3)
    prepared = reader_of(folder).prepare(TEXT, new_tokens=3)
    session, continued = Session(folder), list[int]()
    for _ in range(3):  # one step on the page
        shown = session.view({"text": TEXT, **({"continued": continued} if continued else {})}).shown
        continued.append(shown["answer"]["candidates"][-1][0]["id"])
    last = session.view({"text": TEXT, "continued": continued}).shown
    assert predicted == prepared.text == last["text"]
    assert prepared.lines["decoder"].names == names(last, "decoder")[:-1]
    task = task_to_score(folder, [write(tmp_path / "text.txt", TEXT)], task="lm")
    read = task.test.tokens.tolist()  # the file ends with a newline, and a document with its end token
    assert read[: len(session.view({"text": TEXT}).prepared.written)] == session.view({"text": TEXT}).prepared.written


def test_masked_words(folder_of: FolderOf, tmp_path: Path) -> None:
    folder, text = folder_of("fill"), "The [MASK] fox [MASK]"
    (predicted,) = gf.pipeline(folder)([text], guesses=10)
    shown = Session(folder).view({"text": text}).shown
    for guesses, mask in zip(predicted, shown["answer"]["masks"], strict=True):
        assert [guess.score for guess in guesses] == pytest.approx([c["score"] for c in mask["candidates"]], rel=1e-4)
    assert attention_maps(reader_of(folder), text).columns == names(shown, "encoder")
    task = task_to_score(folder, [write(tmp_path / "text.txt", TEXT)], task="mlm")
    ids = reader_of(folder).prepare(TEXT).arguments["input_ids"][0].tolist()
    assert set(task.test.tokens.tolist()) >= set(ids[1:-1])


def test_the_class_of_each_token(folder_of: FolderOf) -> None:
    folder = folder_of("label")
    (predicted,) = gf.pipeline(folder)([TEXT])
    shown = Session(folder).view({"text": TEXT}).shown
    inside = [entry for entry, token in zip(shown["answer"]["labels"], shown["lines"]["encoder"]["tokens"], strict=True)
              if not token["special"]]  # fmt: skip
    assert [entry["label"] for entry in inside] == [token.label for token in predicted]
    assert attention_maps(reader_of(folder), TEXT).columns == names(shown, "encoder")


def test_an_answer_in_a_text(folder_of: FolderOf) -> None:
    folder = folder_of("span")
    (predicted,) = gf.pipeline(folder)([PASSAGE], question=QUESTION)
    view = Session(folder).view({"text": f"{QUESTION}\n{PASSAGE}"})
    answer, encoded = view.shown["answer"], view.prepared.encoded
    assert encoded is not None
    assert answer["score"] == pytest.approx(predicted.score, rel=1e-4)
    assert encoded.offsets[0, answer["start"], 0] == predicted.start
    assert encoded.offsets[0, answer["end"], 1] == predicted.end
    maps = attention_maps(reader_of(folder), f"{QUESTION}\n{PASSAGE}")
    assert maps.columns == names(view.shown, "encoder")


def test_a_sentence_vector(folder_of: FolderOf) -> None:
    folder = folder_of("embed")
    predicted = gf.pipeline(folder)([TEXT])[0]
    shown = Session(folder).view({"text": TEXT}).shown
    assert shown["answer"]["values"] == pytest.approx(predicted.tolist(), rel=1e-4, abs=1e-6)
    assert attention_maps(reader_of(folder), TEXT).columns == names(shown, "encoder")


@pytest.mark.parametrize("size", [8, 13], ids=["as it is", "to be resized"])
def test_an_image(size: int, folder_of: FolderOf, tmp_path: Path) -> None:
    folder, images = folder_of("image"), tmp_path / "images"
    for number in range(10):  # one folder per class of the model, as `eval` expects
        name = f"LABEL_{number}"
        (images / name).mkdir(parents=True)
        pixels = np.random.default_rng(number).integers(0, 256, (size, size), dtype=np.uint8)
        (images / name / "one.png").write_bytes(as_png(pixels))
    file = images / "LABEL_3" / "one.png"
    (predicted,) = gf.pipeline(folder)([str(file)])
    session, url = Session(folder), "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()
    view = session.view({"image": url})
    found = {entry["label"]: entry["score"] for entry in view.shown["answer"]["classes"]}
    assert found == pytest.approx(predicted.scores, rel=1e-4)
    preparer = preparer_of(gf.load(folder), folder)
    assert isinstance(preparer, ImagePreparer)
    prepared = preparer.prepare(file)  # what inspect draws over
    assert torch.equal(prepared.arguments["pixel_values"], view.prepared.arguments["pixel_values"])
    task: Any = task_to_score(folder, [images], task="images")
    place = [str(path) for path in task.judged.files].index(str(file))
    assert torch.equal(task.as_input(task.judged.take([place])), prepared.arguments["pixel_values"])
    answers = {row["input"]: row["answer"] for row in task.evaluate().examples}
    assert answers[str(file)] == predicted.label


@pytest.mark.parametrize("size", [12, 19], ids=["as it is", "to be resized"])
@pytest.mark.parametrize("kind", ["caption", "ask", "prefix"])
def test_words_about_an_image(kind: str, size: int, folder_of: FolderOf, tmp_path: Path) -> None:
    folder, file, question = folder_of(kind), tmp_path / "one.png", COLOUR if kind == "ask" else None
    pixels = np.random.default_rng(size + 1).integers(0, 256, (size, size, 3), dtype=np.uint8)
    file.write_bytes(as_png(pixels))
    asked = {"question": question} if question else {}
    (predicted,) = gf.pipeline(folder)([str(file)], **asked)
    url = "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()
    view = Session(folder).view({"image": url, **({"text": question} if question else {})})
    preparer = preparer_of(gf.load(folder).eval(), folder)
    assert isinstance(preparer, CaptionPreparer)
    prepared = prepare_words(preparer, str(file), **asked)  # what inspect draws over
    row = {"image": str(file), **asked, ("answer" if question else "caption"): "anything"}
    table = write(tmp_path / "rows.jsonl", json.dumps(row))
    task: Any = task_to_score(folder, [table], task="ask" if question else "caption")
    assert predicted == prepared.text == view.shown["text"] == task.evaluate().examples[0]["answer"]
    assert predicted
    for name, value in prepared.arguments.items():
        assert torch.equal(value, view.prepared.arguments[name])
    assert torch.equal(task.as_input(task.judged.take([0])), prepared.arguments["pixel_values"])
    ((prompt, _),) = task.encode([one for _, one in task.judged.looked])
    assert prepared.arguments["decoder_input_ids"][0, : len(prompt)].tolist() == prompt
    assert names(view.shown, "encoder") == prepared.lines["encoder"].names
    assert names(view.shown, "decoder")[-len(prepared.written) :] == prepared.lines["decoder"].names


def test_the_class_of_a_series(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = folder_of("judge")
    values = [round(float(value), 3) for value in np.sin(np.arange(48) / 3)]
    (predicted,) = gf.pipeline(folder)([values])
    view = Session(folder).view({"csv": ", ".join(map(str, values))})
    found = {entry["label"]: entry["score"] for entry in view.shown["answer"]["classes"]}
    assert found == pytest.approx(predicted.scores, rel=1e-4)
    header = ",".join(["label", *(f"t{i}" for i in range(48))])
    file = write(tmp_path / "rows.csv", header, ",".join(["calm", *map(str, values)]))
    scores = gf.evaluate(folder, [file], task="classify", reads="series")
    assert scores.examples[0]["answer"] == predicted.label
    preparer = preparer_of(gf.load(folder), folder)
    assert isinstance(preparer, SeriesPreparer)
    assert torch.equal(preparer.prepare(values).arguments["past_values"], view.prepared.arguments["past_values"])


def test_a_forecast(tmp_path: Path) -> None:
    folder = make(tmp_path / "model", "series")
    town, length, horizon = seasons(), 48, 12
    mean, deviation = town.values.mean(axis=0), town.values.std(axis=0)
    scale = {"names": list(town.names), "mean": mean.tolist(), "deviation": deviation.tolist()}
    (folder / "series.json").write_text(json.dumps(scale), encoding="utf-8")
    rows = [",".join(["date", *town.names])]
    for time, values in zip(town.times[: length + horizon], town.values[: length + horizon], strict=True):
        rows.append(",".join([str(time).replace("T", " "), *(repr(float(value)) for value in values)]))
    past, whole = write(tmp_path / "past.csv", *rows[: length + 1]), write(tmp_path / "whole.csv", *rows)
    predicted = gf.pipeline(folder)(past)
    session = Session(folder)
    for channel in (0, 3):
        view = session.view({"csv": past.read_text(encoding="utf-8"), "channel": channel})
        assert view.shown["curve"]["future"] == pytest.approx(predicted[:, channel].tolist(), rel=1e-4)
    preparer = preparer_of(gf.load(folder), folder)
    assert isinstance(preparer, SeriesPreparer)
    prepared = preparer.prepare(past)
    assert torch.equal(prepared.arguments["past_values"], view.prepared.arguments["past_values"])
    scores = gf.evaluate(folder, [whole], task="forecast", length=length, horizon=horizon)
    apart = (predicted - town.values[length : length + horizon]) / deviation
    assert scores.count == 1
    assert scores.metrics["mse"] == pytest.approx(float((apart**2).mean()), rel=1e-3)


SERIES_FILES: dict[str, tuple[str, list[str]]] = {
    "gaps that are filled": (
        "\n".join(["date,load", *(f"{hour},{hour.hour}" for hour in HOURS if hour.hour % 9)]),
        ["--fill=interpolate"],
    ),
    "trading days, newest first, with a column of text": (
        "\n".join(['"Date","Price","Vol."', *(f'"{day:%m/%d/%Y}","{1000 + day.day:,}.5","2M"' for day in DAYS[::-1])]),
        ["--columns=Price"],
    ),
    "decimal commas, the day first": (
        "\n".join(["Datum,Kurs", *(f'{day:%d.%m.%Y},"{day.day},25"' for day in DAYS)]),
        [],
    ),
    "a format of its own": (
        "\n".join(["date,load", *(f"{hour:%d/%m/%Y %Hh},{hour.hour}" for hour in HOURS)]),
        ["--date-format=%d/%m/%Y %Hh"],
    ),
    "long series, cut to what they share": (
        "\n".join(
            ["unique_id,ds,y", *(f"{name},{hour},{hour.hour}" for name in "ab" for hour in HOURS[ord(name) - 97 :])]
        ),
        ["--cut"],
    ),
}


@pytest.mark.parametrize("name", SERIES_FILES)
def test_a_series_is_prepared_as_in_training(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The training file of a run, without any flags, gives the same values everywhere."""
    text, flags = SERIES_FILES[name]
    file, folder = tmp_path / "series.csv", tmp_path / "run"
    file.write_text(text + "\n", encoding="utf-8")
    flags = [*flags, "--length=16", "--horizon=4", "--patch=4", "--stride=4", "--steps=1", *SMALL]
    assert run("train", "forecast", "--data", file, "--out", folder, *flags) == 0
    own, scored = task_to_score(folder), task_to_score(folder, [file])
    assert isinstance(own, Forecast)
    assert isinstance(scored, Forecast)
    np.testing.assert_array_equal(scored.series.values, own.series.values)
    assert scored.series.notes == own.series.notes
    np.testing.assert_array_equal(scored.series.times, own.series.times)
    expected = torch.from_numpy(own.scaler.scale(own.series.values)[None, -16:])  # the last window of training
    preparer = preparer_of(gf.load(folder), folder)
    assert isinstance(preparer, SeriesPreparer)
    assert torch.equal(preparer.prepare(file).arguments["past_values"], expected)
    view = Session(folder).view({"csv": file.read_text(encoding="utf-8")})
    assert torch.equal(view.prepared.arguments["past_values"], expected)
    future = gf.pipeline(folder)(file)
    assert view.shown["curve"]["future"] == pytest.approx(future[:, 0].tolist(), rel=1e-4)
    capsys.readouterr()
    assert run("predict", folder, "--file", file) == 0  # as the training suggests
    printed = capsys.readouterr()
    assert float(printed.out.splitlines()[1].split(",")[1]) == pytest.approx(float(future[0, 0]), rel=1e-4)
    for note in own.series.notes:
        assert note in printed.err
    assert run("inspect", "attention", folder, file, "--picture", tmp_path / "seen.png") == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda lines: lines[:30] + lines[33:], "3 steps of 1 hour missing"),
        (lambda lines: [*lines[:30], lines[30].split(",")[0] + ",", *lines[31:]], "no value"),
        (lambda lines: [*lines[:30], lines[30].split(",")[0] + ",much", *lines[31:]], "'much' is not a number"),
        (lambda lines: [*lines[:30], lines[29], *lines[31:]], "occurs twice"),
        (lambda lines: [line.replace("2024-01-0", "1/") for line in lines], "is not a date in a known format"),
    ],
    ids=["gap", "empty", "text", "twice", "dates"],
)
def test_what_training_refuses_of_a_series_so_do_all(
    change: Callable[[list[str]], list[str]], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = make(tmp_path / "model", "series"), tmp_path / "series.csv"
    whole = ["date,load", *(f"{hour},{hour.hour}" for hour in HOURS)]
    scale = {"names": ["load"], "mean": [0.0], "deviation": [1.0], "format": {"calendar": "every-day"}}
    (folder / "series.json").write_text(json.dumps(scale), encoding="utf-8")
    write(file, *change(whole))
    asked: list[Callable[[], Any]] = [
        lambda: Forecast(ForecastSettings(data=file, out=tmp_path / "run")),
        lambda: gf.pipeline(folder)(file),
        lambda: gf.evaluate(folder, [file], task="forecast", length=48, horizon=12),
        lambda: Session(folder).view({"csv": file.read_text(encoding="utf-8")}),
    ]
    for ask in asked:
        with pytest.raises(InputError, match=says):
            ask()
    for verb in (("predict", folder, file), ("inspect", "attention", folder, file)):
        assert run(*verb) == 2
        assert says in capsys.readouterr().err


def turned(colours: Image.Image) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(colours, "JPEG", exif=exif)


def clear(colours: Image.Image, mode: str) -> bytes:
    alpha = Image.linear_gradient("L").resize(colours.size)
    colours.putalpha(alpha)
    return saved(colours.convert(mode), "PNG")


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


IMAGE_FILES: dict[str, Callable[[Image.Image], bytes]] = {
    "wide.png": lambda image: saved(image, "PNG"),
    "turned.jpg": turned,
    "deep.png": lambda image: saved(Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 256), "PNG"),
    "cmyk.jpg": lambda image: saved(image.convert("CMYK"), "JPEG"),
    "palette.gif": lambda image: saved(image.quantize(16), "GIF", transparency=3),
    "clear.png": lambda image: clear(image, "RGBA"),
    "grey_and_clear.png": lambda image: clear(image, "LA"),
    "ink.png": lambda image: saved(image.convert("1"), "PNG"),
}


@pytest.mark.parametrize("flags", [(), ("--grey", "--size=16")], ids=["chosen", "grey"])
def test_images_of_all_kinds_are_prepared_as_in_training(flags: tuple[str, ...], tmp_path: Path) -> None:
    photos, folder = tmp_path / "photos", tmp_path / "run"
    rng = np.random.default_rng(0)
    for label in ("a", "b"):
        (photos / label).mkdir(parents=True)
        for name, content in IMAGE_FILES.items():
            colours = Image.fromarray(rng.integers(0, 256, (21, 34, 3), dtype=np.uint8))
            (photos / label / name).write_bytes(content(colours))
    assert (
        run("train", "images", "--data", photos, "--out", folder, "--valid-fraction=0.2", "--steps=1", *SMALL, *flags)
        == 0
    )
    own, scored = task_to_score(folder), task_to_score(folder, [photos])
    preparer, session, predict = preparer_of(gf.load(folder), folder), Session(folder), gf.pipeline(folder)
    trained = ImageClasses(ImagesSettings(data=photos, out=tmp_path / "again", size=16, grey="--grey" in flags))
    assert isinstance(own, ImageClasses)
    assert isinstance(scored, ImageClasses)
    assert isinstance(preparer, ImagePreparer)
    for number, file in enumerate(scored.judged.files):
        prepared = preparer.prepare(file)
        expected = prepared.arguments["pixel_values"]
        assert torch.equal(scored.as_input(scored.judged.take([number])), expected), file.name
        url = "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()
        view = session.view({"image": url})
        assert torch.equal(view.prepared.arguments["pixel_values"], expected), file.name
        (predicted,) = predict([str(file)])
        assert view.shown["answer"]["classes"][0]["label"] == predicted.label
        assert prepared.pixels is not None
        for part in (own.train, own.valid, trained.train):  # as the model says, and as in a new training
            if file in part.files:
                seen = part.take([part.files.index(file)])[0].transpose(1, 2, 0)  # (Y, X, C)
                np.testing.assert_array_equal(seen.squeeze(), prepared.pixels, err_msg=file.name)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (saved(Image.new("I", (8, 8), 1 << 20), "TIFF"), "has 32 bits per pixel"),
        (saved(Image.new("L", (8, 8)), "PNG")[:45], "cannot be read as an image"),
        (b"", "is empty: expected an image"),
    ],
    ids=["32 bits", "half", "empty"],
)
def test_what_training_refuses_of_an_image_so_do_all(
    content: bytes, says: str, folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = folder_of("image"), tmp_path / "photos" / "LABEL_1" / "one.png"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    url = "data:image/png;base64," + base64.b64encode(content).decode()
    asked: list[Callable[[], Any]] = [
        lambda: ImageClasses(ImagesSettings(data=tmp_path / "photos", out=tmp_path / "run")),
        lambda: gf.pipeline(folder)([str(file)]),
        lambda: gf.evaluate(folder, [tmp_path / "photos"], task="images"),
        lambda: Session(folder).view({"image": url}),
    ]
    for ask in asked:
        with pytest.raises(InputError, match=says):
            ask()
    assert run("inspect", "attention", folder, file) == 2
    assert says in capsys.readouterr().err


def test_a_run_of_an_older_version_is_prepared_as_it_was(tmp_path: Path) -> None:
    """It saved only its settings: gaps are filled day by day, and images are not turned upright."""
    folder = make(tmp_path / "series", "series")
    scale = {"names": ["load"], "mean": [0.0], "deviation": [1.0], "frequency": {"count": 86400, "unit": "second"}}
    (folder / "series.json").write_text(json.dumps(scale), encoding="utf-8")
    told = {"task": "forecast", "settings": {"fill": "interpolate", "cut": False}}
    (folder / "run.json").write_text(json.dumps(told), encoding="utf-8")
    file = write(tmp_path / "days.csv", "date,load", *(f"{day},{day.day}" for day in DAYS))
    preparer = preparer_of(gf.load(folder), folder)
    assert isinstance(preparer, SeriesPreparer)
    past = preparer.prepare(file).arguments["past_values"]
    assert torch.equal(past[0, :, 0], torch.from_numpy(read_series(file, EVERY_DAY).values[-48:, 0]))
    folder = make(tmp_path / "image", "image")
    settings = folder / "preprocessor_config.json"
    values = json.loads(settings.read_text(encoding="utf-8"))
    del values["exif_rotation"], values["background"]
    settings.write_text(json.dumps(values), encoding="utf-8")
    config = gf.load(folder).config
    assert read_preparation(folder, config).upright, "as other libraries do"
    (folder / "run.json").write_text(json.dumps({"task": "images", "settings": {}}), encoding="utf-8")
    assert not read_preparation(folder, config).upright


def test_flags_of_the_training_hold_for_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An encoding that cannot be detected, and remarks on how a file was read, which every verb prints."""
    rows = [f"{hour:%d.%m.%Y %H:%M}|{10 + i % 5}" for i, hour in enumerate(HOURS)]
    file = tmp_path / "load.csv"
    file.write_bytes("\n".join(["date|負荷", *rows]).encode("shift_jis"))
    windows = ("--length=24", "--horizon=4", "--patch=8", "--stride=8", "--period=4")
    folder = tmp_path / "run"
    told = ("--encoding=shift_jis", "--delimiter=pipe")
    assert run("train", "forecast", "--data", file, "--out", folder, "--steps=1", *told, *SMALL, *windows) == 0
    capsys.readouterr()
    future = gf.pipeline(folder)(file)
    note = "dates are read as day first"
    assert note in capsys.readouterr().err
    assert run("predict", folder, "--file", file) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("date,負荷\n")
    assert note in shown.err
    assert float(shown.out.splitlines()[1].split(",")[1]) == pytest.approx(float(future[0, 0]), rel=1e-5)
    assert run("inspect", "attention", folder, file, "--picture", tmp_path / "a.png") == 0
    assert note in capsys.readouterr().err
    assert gf.evaluate(folder, [file]).count == len(HOURS) - 24 - 4 + 1
    with pytest.raises(InputError, match="line 1 of the table is not UTF-8: save the table as UTF-8"):
        Session(folder).view({"csv": file.read_bytes().decode("utf-8", "replace")})
    other = write(tmp_path / "other.csv", "date,wind", *(f"{hour},{hour.hour}" for hour in HOURS))
    gf.pipeline(folder)(other)
    assert "the channels are wind, and in training they were 負荷" in capsys.readouterr().err


def test_three_texts_are_no_pair(folder_of: FolderOf, capsys: pytest.CaptureFixture[str]) -> None:
    folder, text = folder_of("encoder"), "one\ttwo\tthree"
    for ask in (lambda: Session(folder).view({"text": text}), lambda: attention_maps(reader_of(folder), text)):
        with pytest.raises(InputError, match="the text has 2 tabs: expected a text, or two texts with one tab between"):
            ask()
    assert run("predict", folder, text) == 2
    assert "input 1 has 2 tabs: expected a text, or two texts with one tab between" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["encoder", "encoder-decoder", "embed"])
def test_one_limit_and_one_sentence(kind: str, tmp_path: Path) -> None:
    """Except for sentence vectors: there, long texts are truncated with a remark, as in sentence-transformers."""
    folder, text = make(tmp_path / "model", kind, positions="learned", max_len=16), "The quick fox " * 9
    asked: list[Callable[[], Any]] = [
        lambda: Session(folder).view({"text": text}),
        lambda: attention_maps(reader_of(folder), text),
    ]
    if kind != "embed":
        asked.append(lambda: gf.pipeline(folder)([text]))
    said = set()
    for ask in asked:
        with pytest.raises(InputError, match=r"text (1 )?has \d+ tokens: expected at most 16. Shorten it") as error:
            ask()
        # predict numbers its texts and names its flag.
        said.add(str(error.value).replace("text 1", "the text").removesuffix(", or use --truncate"))
    assert len(said) == 1
    assert Session(folder).describe()["limit"] == 16


def as_run(folder: Path, task: str, record: dict[str, Any] | None = None, **settings: Any) -> Path:
    """Makes the folder look like that of a run with these settings."""
    values = {"task": task, "settings": settings, **(record or {})}
    (folder / "run.json").write_text(json.dumps(values), encoding="utf-8")
    return folder


def ids_of(folder: Path, task: str, file: Path) -> list[list[int]]:
    """The ids that the model reads in eval for the examples of a file."""
    made: Any = task_to_score(folder, [file])
    if task == "translate":
        return [source for source, _ in made.encode(made.test)]
    return [ids for ids, _ in made.reader.encode(made.judged)]


LONG = "The quick brown fox jumps over the lazy dog. " * 3


def test_a_long_text_is_cut_as_in_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Even if positions have no maximum, so that the model itself would accept all of it."""
    folder = as_run(make(tmp_path / "model", "encoder", positions="rotary"), "classify", max_len=12, truncate=True)
    row = write(tmp_path / "rows.csv", "text,label", f"{LONG},calm")
    (expected,) = ids_of(folder, "classify", row)
    assert len(expected) == 12
    prepared = reader_of(folder).prepare(LONG)
    assert prepared.arguments["input_ids"][0].tolist() == expected
    assert "tokens: truncated to 12, as in training" in capsys.readouterr().err
    view = Session(folder).view({"text": LONG})
    assert view.prepared.arguments["input_ids"][0].tolist() == expected
    assert view.shown["notes"] == list(prepared.notes)
    (predicted,) = gf.pipeline(folder)([LONG])
    assert "the text is longer than 12 tokens: truncated" in capsys.readouterr().err
    assert {entry["label"]: entry["score"] for entry in view.shown["answer"]["classes"]} == pytest.approx(
        predicted.scores, rel=1e-4
    )
    assert gf.evaluate(folder, [row]).examples[0]["answer"] == predicted.label


def test_a_long_text_is_refused_as_in_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = as_run(make(tmp_path / "model", "encoder", positions="rotary"), "classify", max_len=12)
    row = write(tmp_path / "rows.csv", "text,label", f"{LONG},calm")
    for ask in (
        lambda: gf.pipeline(folder)([LONG]),
        lambda: reader_of(folder).prepare(LONG),
        lambda: Session(folder).view({"text": LONG}),
    ):
        with pytest.raises(InputError, match=r"has \d+ tokens: expected at most 12. Shorten it"):
            ask()
    with pytest.raises(InputError, match=r"has \d+ tokens, but the model takes at most 12"):
        gf.evaluate(folder, [row])
    assert run("predict", folder, LONG) == 2
    assert "Shorten it, or use --truncate" in capsys.readouterr().err
    assert run("predict", folder, LONG, "--truncate", "--json") == 0
    shown = capsys.readouterr()
    assert "the text is longer than 12 tokens: truncated" in shown.err
    cut = gf.evaluate(folder, [row], truncate=True)
    assert json.loads(shown.out)["label"] == cut.examples[0]["answer"]


def test_a_long_source_is_cut_as_in_training(tmp_path: Path) -> None:
    folder = as_run(make(tmp_path / "model", "encoder-decoder"), "translate", max_len=12, truncate=True)
    pairs = write(tmp_path / "pairs.tsv", f"{LONG}\tanything")
    (expected,) = ids_of(folder, "translate", pairs)
    assert len(expected) == 12
    assert reader_of(folder).prepare(LONG).arguments["input_ids"][0].tolist() == expected
    (predicted,) = gf.pipeline(folder)([LONG])
    assert predicted == Session(folder).view({"text": LONG}).shown["text"]
    assert predicted == gf.evaluate(folder, [pairs]).examples[0]["translation"]


@pytest.mark.parametrize("kind", ["encoder", "encoder-decoder", "label", "span", "embed", "fill"])
def test_an_empty_text_is_refused_everywhere(
    kind: str, folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(kind)
    options = {"question": QUESTION} if kind == "span" else {}
    with pytest.raises(InputError, match="input 2 is empty"):
        gf.pipeline(folder)([TEXT, " "], **options)
    for ask in (lambda: Session(folder).view({"text": " "}), lambda: reader_of(folder).prepare(" ")):
        with pytest.raises(InputError, match="the text is empty"):
            ask()
    flags = [f"--{name}={value}" for name, value in options.items()]
    mask = "[MASK]" if kind == "fill" else ""
    file = write(tmp_path / "lines.txt", f"one {mask}", "", f"three {mask}")
    assert run("predict", folder, "--file", file, *flags) == 2
    assert "lines.txt, line 2 is empty: expected a text. Fill it, or leave it out" in capsys.readouterr().err
    table = write(tmp_path / "rows.csv", "text,other", f"one {mask},x", " ,y")
    assert run("predict", folder, "--file", table, *flags) == 2
    assert "rows.csv, line 3 is empty: expected a text" in capsys.readouterr().err


def test_a_decoder_may_begin_with_nothing(folder_of: FolderOf) -> None:
    (text,) = gf.pipeline(folder_of("decoder"))([""], do_sample=False, max_new_tokens=3)
    assert isinstance(text, str)


def test_columns_are_those_of_the_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"text_columns": ["premise", "claim"], "label_column": "verdict"}
    folder = as_run(make(tmp_path / "model", "encoder"), "classify", **settings)
    header, cells = ["claim", "verdict", "premise", "text"], ["says hello", "calm", "The quick fox", "other"]
    for name, mark in (("rows.csv", ","), ("rows.tsv", "\t")):
        file = write(tmp_path / name, mark.join(header), mark.join(cells))
        assert run("predict", folder, "--file", file, "--json") == 0
        (row,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert row["input"] == ["The quick fox", "says hello"]
        assert gf.evaluate(folder, [file]).examples[0]["answer"] == row["label"]
    other = write(tmp_path / "other.csv", "text,label", "one,calm")
    assert run("predict", folder, "--file", other) == 2
    assert "expected premise and claim, as in training. Name the text column with --text-columns" in (
        capsys.readouterr().err
    )


def test_a_translator_reads_its_source_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = as_run(make(tmp_path / "model", "encoder-decoder"), "translate", source_column="en", target_column="ko")
    for name, rows in (("rows.csv", "en,ko\nThe fox,안녕"), ("rows.tsv", "ko\ten\n안녕\tThe fox")):
        assert run("predict", folder, "--file", write(tmp_path / name, rows), "--json") == 0
        assert json.loads(capsys.readouterr().out)["input"] == "The fox"
    assert run("predict", folder, "--file", write(tmp_path / "pairs.tsv", "The fox\t안녕"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["input"] == "The fox"  # a pair as in training: the source comes first


@pytest.mark.parametrize("texts", [1, 2])
def test_a_model_of_pairs_reads_pairs(texts: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a model of single texts, a tab is part of the text: a cell of a table may contain one."""
    folder = as_run(make(tmp_path / "model", "encoder"), "classify", {"texts": texts})
    wrong: Any = PAIR.split("\t")[0] if texts == 2 else tuple(PAIR.split("\t"))
    with pytest.raises(InputError, match=r"this model was trained on (pairs|single texts)"):
        gf.pipeline(folder)([wrong])
    if texts == 1:
        assert run("predict", folder, "--file", write(tmp_path / "rows.tsv", PAIR)) == 2
        assert "rows.tsv, line 1 has a tab, and this model reads one text" in capsys.readouterr().err
    right = tuple(PAIR.split("\t")) if texts == 2 else PAIR
    (predicted,) = gf.pipeline(folder)([right])
    shown = Session(folder).view({"text": PAIR}).shown
    assert predicted.label == shown["answer"]["classes"][0]["label"]
    assert run("predict", folder, PAIR, "--json") == 0
    row = json.loads(capsys.readouterr().out)
    assert row["scores"] == pytest.approx(predicted.scores, rel=1e-5)
    parts = PAIR.split("\t") if texts == 2 else [PAIR]
    encoded = reader_of(folder).tokenizer.encode(parts[:1], parts[1:] or None)
    assert torch.equal(reader_of(folder).prepare(PAIR).arguments["input_ids"], encoded.input_ids)


def test_unknown_tokens_are_told_on_every_call(folder_of: FolderOf, capsys: pytest.CaptureFixture[str]) -> None:
    folder, text = folder_of("encoder"), "The quick fox Ω"
    said = "1 of {} tokens is unknown to the vocabulary: 'Ω'\n"
    predict = gf.pipeline(folder)
    assert predict.tokenizer is not None
    said = said.format(len(predict.tokenizer.ids(text, add_special=False)))
    for _ in range(2):
        predict([text])
        assert capsys.readouterr().err.endswith(said)
    assert run("predict", folder, text, "The fox", "--json") == 0
    shown = capsys.readouterr()
    assert "in 1 of 2 texts is unknown to the vocabulary: 'Ω'" in shown.err
    assert [row.get("unknown") for row in map(json.loads, shown.out.splitlines())] == [["Ω"], None]
    reader_of(folder).prepare(text)
    assert capsys.readouterr().err.endswith(said)
    view = Session(folder).view({"text": text})
    assert view.shown["notes"][0].endswith(said.strip())
    assert [token["text"] for token in view.shown["lines"]["encoder"]["tokens"] if token.get("unknown")] == ["Ω"]
    assert not capsys.readouterr().err  # the page shows it


def test_unknown_tokens_are_noted_beside_scores(folder_of: FolderOf, tmp_path: Path) -> None:
    file = write(tmp_path / "rows.csv", "text,label", "The quick fox Ω,calm", "The fox,calm")
    notes = gf.evaluate(folder_of("encoder"), [file], task="classify").notes
    assert any("in 1 of 2 texts is unknown to the vocabulary: 'Ω'" in note for note in notes)
    pairs = write(tmp_path / "pairs.tsv", "The Ω fox\tanything")
    notes = gf.evaluate(folder_of("encoder-decoder"), [pairs], task="translate").notes
    assert any("unknown to the vocabulary: 'Ω'" in note for note in notes)
    text = write(tmp_path / "text.txt", "The quick Ω fox jumps over the lazy dog. " * 9)
    notes = gf.evaluate(folder_of("fill"), [text], task="mlm", context=32).notes
    assert any("tokens are unknown to the vocabulary" in note for note in notes)


def test_bytes_of_another_encoding_are_no_text(folder_of: FolderOf, capsys: pytest.CaptureFixture[str]) -> None:
    folder, text = folder_of("encoder"), "caf\udce9"  # Latin-1 bytes from a shell
    assert run("predict", folder, text) == 2
    assert "the argument b'caf\\xe9' is not UTF-8" in capsys.readouterr().err
    with pytest.raises(InputError, match="the text is not UTF-8 text"):
        reader_of(folder).prepare(text)


def test_a_training_of_pairs_is_remembered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """predict needs only the run: the flags of the training apply."""
    rows = [f"{i},{'yes' if i % 2 else 'no'},claim {i % 7},{'premise ' * (i % 5 + 1)}{i % 3}" for i in range(60)]
    file, folder = write(tmp_path / "rows.csv", "id,verdict,claim,premise", *rows), tmp_path / "run"
    columns = ["--text-columns", "premise", "claim", "--label-column", "verdict"]
    small = ["--steps", "2", "--d-model", "16", "--num-layers", "1", "--num-heads", "2", "--vocab-size", "100"]
    limits = ["--max-len", "9", "--truncate"]
    assert run("train", "classify", "--data", file, "--out", folder, *columns, *small, *limits) == 0
    capsys.readouterr()
    assert run("predict", folder, "--file", file, "--json") == 0
    shown = capsys.readouterr()
    assert "texts are longer than 9 tokens: truncated" in shown.err
    answers = [json.loads(line) for line in shown.out.splitlines()]
    task: Any = task_to_score(folder, [file])
    logits, _ = task.answer(task.judged)
    scores = logits.softmax(dim=1).tolist()
    assert [list(row["scores"].values()) for row in answers] == [pytest.approx(one, abs=1e-5) for one in scores]
    assert answers[0]["input"] == ["premise 0", "claim 0"]
    assert run("predict", folder, "premise 0") == 2
    assert "input 1 is a single text, and this model was trained on pairs" in capsys.readouterr().err
