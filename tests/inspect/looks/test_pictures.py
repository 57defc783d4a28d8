"""Looks inside models that describe images, and inside dual encoders: what is drawn, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.command import printed, run
from helpers.tiny_models import QUESTION

import glassformer as gf
from glassformer.errors import InputError
from glassformer.inspect.looks import patches
from glassformer.inspect.looks.attention import picture_input
from glassformer.inspect.looks.examples import example_scene
from glassformer.inspect.looks.lens import lens_of_text
from glassformer.inspect.looks.rollout_picture import picture_rollout
from glassformer.inspect.walk.equations import Numbers, Worked
from glassformer.inspect.walk.walkthrough import walk
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.prepare import preparer_of

FolderOf = Callable[[str], Path]


def opened(folder: Path) -> tuple[gf.Transformer, CaptionPreparer]:
    model = gf.load(folder).eval()
    preparer = preparer_of(model, folder)
    assert isinstance(preparer, CaptionPreparer)
    return model, preparer


@pytest.mark.parametrize("kind", ["caption", "ask", "prefix"])
def test_each_written_word_has_its_attention_over_the_patches(
    kind: str, folder_of: FolderOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, preparer = opened(folder_of(kind))
    question = QUESTION if kind == "ask" else None
    drawn = {}
    monkeypatch.setattr(patches, "draw_words_over_image", lambda pixels, *rest: drawn.update(pixels=pixels, rest=rest))
    picture_input(model, folder_of(kind), "example", tmp_path / "x.png", layer=1, question=question)
    maps, words, title, _ = drawn["rest"]
    prepared = preparer.prepare(example_scene(), question)
    name = "decoder.blocks.1." + ("attn" if kind == "prefix" else "cross")
    with torch.no_grad(), gf.record(model, attention=name) as seen:
        prepared.run(model)
    line, before = prepared.lines["decoder"], 17 if kind == "prefix" else 0
    expected = seen[name][0, :, before + line.begins :, 1:17].unflatten(2, (4, 4))  # after the class token
    assert list(maps) == [f"head {i}" for i in range(4)]
    torch.testing.assert_close(torch.stack(list(maps.values())), expected)
    assert words == line.written[line.begins :]
    assert (prepared.text or "") in title
    assert drawn["pixels"].shape == (12, 12, 3)


@pytest.mark.parametrize("chosen", [{}, {"head": 1}, {"average": True}, {"part": "encoder"}, {"part": "decoder"}])
@pytest.mark.parametrize("kind", ["caption", "prefix"])
def test_pictures_are_drawn(kind: str, chosen: dict[str, object], folder_of: FolderOf, tmp_path: Path) -> None:
    model, _ = opened(folder_of(kind))
    picture_input(model, folder_of(kind), "example", tmp_path / "x.png", **chosen)  # type: ignore[arg-type]
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    for part in ("encoder", "decoder"):
        picture_rollout(model, folder_of(kind), "example", tmp_path / f"{part}.png", part=part)  # type: ignore[arg-type]
        assert (tmp_path / f"{part}.png").stat().st_size > 1000


@pytest.mark.parametrize("kind", ["caption", "prefix"])
def test_the_last_row_of_the_lens_is_what_the_model_writes(kind: str, folder_of: FolderOf) -> None:
    model, preparer = opened(folder_of(kind))
    lens, line = lens_of_text(preparer, example_scene())
    with torch.no_grad():
        logits = preparer.prepare(example_scene()).run(model).logits
    torch.testing.assert_close(lens.logits, logits)
    assert lens.tokens.shape[2] == len(line.tokens)


def test_a_walk_begins_with_a_patch(folder_of: FolderOf) -> None:
    model, preparer = opened(folder_of("caption"))
    found = walk(preparer, example_scene(), part="encoder", layer=0, head=2, token=6)
    first = found.equations[0]
    assert (first.step, first.title, found.tokens[6]) == ("encoder.embed", "the patch", "1,1")
    worked = next(row for row in first.rows if isinstance(row, Worked))
    pixels = preparer.prepare(example_scene()).arguments["pixel_values"]
    patch = pixels[0, :, 3:6, 3:6].flatten()
    embed = model.encoder.embed.patches  # type: ignore[union-attr]
    assert worked.result == pytest.approx(float((patch @ embed.weight[0].flatten() + embed.bias[0]).detach()), rel=1e-4)
    assert walk(preparer, example_scene(), part="encoder", token=0).equations[0].title == "a learned vector"
    cross = walk(preparer, example_scene(), part="cross", layer=1, target="a red circle")
    assert cross.tokens[0] == "<s>"
    assert cross.equations[-1].title == "probabilities"


@pytest.mark.parametrize("token", [0, 2, -1])
def test_a_walk_of_a_word_behind_the_picture(token: int, folder_of: FolderOf) -> None:
    model, preparer = opened(folder_of("prefix"))
    prepared = preparer.prepare(example_scene(), target="a red circle")
    ids = prepared.arguments["decoder_input_ids"][0]
    place = token % len(ids)
    found = walk(preparer, example_scene(), layer=1, head=2, token=token, target="a red circle")
    with torch.no_grad(), gf.record(model, activations=True) as seen:
        prepared.run(model)

    def values(step: str, name: str) -> torch.Tensor:
        """The first numbers that the walk shows of a step under this name."""
        rows = (row for equation in found.equations if equation.step == step for row in equation.rows)
        return torch.tensor(next(row for row in rows if isinstance(row, Numbers) and row.name == name).values)

    def same(shown: torch.Tensor, exact: torch.Tensor) -> None:
        torch.testing.assert_close(shown, exact[: len(shown)], rtol=1e-4, atol=1e-5)

    assert (found.token, found.tokens) == (place, prepared.lines["decoder"].names)
    same(values("decoder.embed", f"table[{int(ids[place])}]"), model.decoder.embed.tokens.weight[ids[place]].detach())  # type: ignore[union-attr]
    assert values("decoder.embed.positions", "position").tolist() == [place]
    same(values("decoder.embed.positions", "PE"), seen["decoder.embed.positions"][0, place])
    same(values("decoder.placed", "placed"), seen["decoder.placed"][0, 17 + place])
    same(values("decoder.blocks.1.attn.q", "q"), seen["decoder.blocks.1.attn.q"][0, 2, 17 + place])
    same(values("decoder.blocks.1.attn.mixed", "mixed"), seen["decoder.blocks.1.attn.mixed"][0, 2, 17 + place])
    (weights,) = (row for one in found.equations if one.step == "decoder.blocks.1.attn" for row in one.rows
                  if isinstance(row, Numbers) and row.name == "weights")  # fmt: skip
    names = prepared.lines["decoder"].behind(prepared.lines["encoder"]).names
    looked = seen["decoder.blocks.1.attn"][0, 2, 17 + place]
    for label, weight in zip(weights.of, weights.values, strict=True):
        key = int(label.split()[0])
        assert label == f"{key} {names[key]!r}"
        assert weight == pytest.approx(float(looked[key]), abs=1e-5)
    logits = seen["logits"][0, place]
    same(values("logits", "logits"), logits.sort(descending=True).values)


def test_what_is_refused(folder_of: FolderOf, tmp_path: Path) -> None:
    model, _ = opened(folder_of("prefix"))
    with pytest.raises(InputError, match="reads the encoder's output as a prefix of the decoder's tokens"):
        picture_input(model, folder_of("prefix"), "example", tmp_path / "x.png", part="cross")
    model, _ = opened(folder_of("ask"))
    with pytest.raises(InputError, match="no question given"):
        picture_input(model, folder_of("ask"), "example", tmp_path / "x.png")
    with pytest.raises(InputError, match=r"the input is empty\. Give the path of an image"):
        picture_input(model, folder_of("ask"), " ", tmp_path / "x.png", question=QUESTION)
    with pytest.raises(InputError, match="there is no such image file"):
        picture_input(model, folder_of("ask"), "nothing.png", tmp_path / "x.png", question=QUESTION)
    text = gf.load(folder_of("decoder")).eval()
    with pytest.raises(InputError, match="does not answer questions about an image"):
        picture_input(text, folder_of("decoder"), "The fox", tmp_path / "x.png", question=QUESTION)
    assert not list(tmp_path.iterdir())


def test_the_command_line(folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "x.png", folder_of("ask")
    asked = (folder, "example", "--question", QUESTION)
    assert printed(capsys, "inspect", "attention", *asked, "--picture", file).strip() == f"attention: {file}"
    assert "cross-attention" in printed(capsys, "inspect", "step", *asked, "--part", "cross")
    assert printed(capsys, "inspect", "lens", *asked, "--picture", file).strip() == f"lens: {file}"
    assert "decoder.blocks.0" in printed(capsys, "inspect", "shapes", folder)
    assert run("inspect", "align", folder, "example") == 2
    assert "inspect align needs a model that reads texts, and this one reads images" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "part"), [("example", "encoder"), ("a red circle", "decoder")])
def test_of_a_pair_the_tower_that_reads_the_input(given: str, part: str, folder_of: FolderOf, tmp_path: Path) -> None:
    file = tmp_path / "x.png"
    assert run("inspect", "attention", folder_of("match"), given, "--part", part, "--picture", file) == 0
    assert file.stat().st_size > 1000
