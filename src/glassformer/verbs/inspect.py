"""The verb `inspect`: one look inside a model, as a table, as numbers, or as a picture."""

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import NamedTuple

from glassformer.checkpoints.config import config_and_dtype
from glassformer.checkpoints.load import load
from glassformer.core.model import Transformer, count
from glassformer.data.files import read_lines
from glassformer.data.pairs import read_pairs
from glassformer.errors import InputError
from glassformer.hub import find_folder
from glassformer.inspect.ledger.diff import diff
from glassformer.inspect.ledger.ledger import ledger
from glassformer.inspect.ledger.params import parameter_tables, shares_by_kind, shares_by_layer
from glassformer.inspect.ledger.sizes import without_memory
from glassformer.inspect.looks.align import Alignment, align_corpus
from glassformer.inspect.looks.align_picture import draw_alignment
from glassformer.inspect.looks.attention import part_of, picture_input
from glassformer.inspect.looks.importance import head_importance, picture_importance, show_importance
from glassformer.inspect.looks.lens import picture_lens
from glassformer.inspect.looks.positions import picture_positions
from glassformer.inspect.walk.equations import show as show_walk
from glassformer.inspect.walk.walkthrough import walk
from glassformer.terminal import make_console
from glassformer.text import Tokenizer, load_tokenizer
from glassformer.verbs.inspect_settings import InspectSettings as InspectSettings


class Look(NamedTuple):
    """What shows it, and which settings it listens to beside its own."""

    shows: Callable[[InspectSettings], None]
    takes: tuple[str, ...] = ()


def inspect(settings: InspectSettings) -> None:
    LOOKS[chosen(settings)].shows(settings)


def chosen(settings: InspectSettings) -> str:
    """The look that was asked for. Two at once, and settings that belong to another, are refused."""
    default = {entry.name: entry.default for entry in fields(InspectSettings)}
    given = [name for name, value in default.items() if name != "run" and getattr(settings, name) != value]
    asked = [name for name in given if name in LOOKS]
    flags = {name: f"--{name.replace('_', '-')}" for name in default}
    if len(asked) > 1:
        both = " and ".join(flags[name] for name in asked)
        raise InputError(f"{both} were given together: choose one look at a time")
    look = asked[0] if asked else "params"
    for name in given:
        if name not in (look, "json", *LOOKS[look].takes):
            users = [flags[other] for other, known in LOOKS.items() if name in known.takes]
            raise InputError(f"{flags[name]} belongs to {' or '.join(users)}: give it there")
    return look


def show_shapes(settings: InspectSettings) -> None:
    config, dtype = config_and_dtype(settings.run)
    found = ledger(
        config, batch=settings.batch, length=settings.length, target_length=settings.target_length, dtype=dtype
    )
    found = found.fold() if settings.fold else found
    if settings.html is not None:
        write_page(settings.html, found.to_html(Path(settings.run).name))
    if settings.json:
        print(found.to_json())
        return
    console = make_console()
    if settings.html is None:
        console.print(found.as_table())
        console.print()
    for name, value in found.summary().items():
        console.print(f"{name:16}{value}", highlight=False)
    if settings.html is not None:
        console.print(f"{'page':16}{settings.html}", highlight=False)


def write_page(path: Path, page: str) -> None:
    if not path.parent.is_dir():
        raise InputError(f"--html {path} cannot be written: there is no folder {path.parent}")
    path.write_text(page, encoding="utf-8")


def show_parameters(settings: InspectSettings) -> None:
    config, _ = config_and_dtype(settings.run)
    model = without_memory(config)
    if settings.json:
        kinds, layers = shares_by_kind(model), shares_by_layer(model)
        parts = {"parts": {share.part: share.parameters for share in kinds}}
        parts["layers"] = {share.part: share.parameters for share in layers}
        print(json.dumps({"parameters": count(model), **parts, "config": config.to_dict()}))
        return
    console = make_console()
    for table in parameter_tables(model):
        console.print(table)
        console.print()


def show_diff(settings: InspectSettings) -> None:
    assert settings.diff is not None
    before, after = (config_and_dtype(path)[0] for path in (settings.run, settings.diff))
    found = diff(before, after)
    if settings.json:
        print(found.to_json())
    else:
        make_console().print(found.as_table(Path(settings.run).name, Path(settings.diff).name))


def show_attention(settings: InspectSettings) -> None:
    folder = find_folder(settings.run)
    model = load(folder)
    part = settings.part or part_of(model)
    path = settings.picture or beside(settings, picture_name(settings, part))
    picture_input(
        model, folder, settings.attention or "", path, part=part, layer=settings.layer, head=settings.head,
        average=settings.average, rollout=settings.rollout,
    )  # fmt: skip
    show_picture("attention", path, settings)


def beside(settings: InspectSettings, name: str) -> Path:
    """In the run's folder; of a model from the hub, here."""
    return Path(settings.run) / name if Path(settings.run).is_dir() else Path(name)


def load_reader(settings: InspectSettings, look: str) -> tuple[Transformer, Tokenizer]:
    """A model of texts and its tokenizer."""
    folder = find_folder(settings.run)
    model = load(folder)
    if model.config.patches is not None:
        reads = "images" if model.config.image else "series"
        raise InputError(f"{look} shows what happens to a text, and this model reads {reads}: try --attention example")
    return model, load_tokenizer(folder)


def picture_name(settings: InspectSettings, part: str) -> str:
    """attention-cross.png, or attention-cross-layer0-head2.png where those were chosen."""
    layer = "" if settings.layer is None else f"-layer{settings.layer}"
    head = "" if settings.head is None else f"-head{settings.head}"
    how = "-average" if settings.average else "-rollout" if settings.rollout else ""
    return f"attention-{part}{layer}{head}{how}.png"


def show_lens(settings: InspectSettings) -> None:
    path = settings.picture or beside(settings, "lens.png")
    picture_lens(*load_reader(settings, "--lens"), settings.lens or "", path)
    show_picture("lens", path, settings)


def show_alignment(settings: InspectSettings) -> None:
    """On standard output nothing but the pairs, a line for each text, as other tools read them."""
    sources, targets = [settings.align or ""], None if settings.target is None else [settings.target]
    if settings.align_file is not None:
        sources, targets = read_texts(settings.align_file)
    found = align_corpus(*load_reader(settings, "--align"), sources, targets)
    for alignment in found:
        print(json.dumps(alignment.to_dict(), ensure_ascii=False) if settings.json else alignment.pharaoh())
    if settings.align is not None and not settings.json:
        show_words(found[0])
    if settings.picture is not None:
        draw_alignment(found[0], settings.picture)
    elif settings.align is not None:
        draw_if_readable(found[0], beside(settings, "alignment.png"))


def draw_if_readable(alignment: Alignment, path: Path) -> None:
    console = make_console(stderr=True)
    try:
        draw_alignment(alignment, path)
    except InputError as error:
        console.print(f"no picture: {error}")
    else:
        console.print(f"drawn in {path}")


def read_texts(path: Path) -> tuple[list[str], list[str] | None]:
    """The lines of a file; where they have tabs, what stands before and behind."""
    lines = read_lines(path)
    if not any("\t" in line for line in lines):
        return lines, None
    pairs = read_pairs(path)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def show_words(alignment: Alignment) -> None:
    console = make_console(stderr=True)
    for source, target in alignment.pairs:
        console.print(f"  {alignment.source_words[source]} - {alignment.target_words[target]}")
    console.print(f"by {', '.join(f'layer {head.layer} head {head.head}' for head in alignment.heads)}")


def show_positions(settings: InspectSettings) -> None:
    if settings.part == "cross":
        raise InputError("--part cross has no positions of its own: choose encoder or decoder")
    path = settings.picture or beside(settings, "positions.png")
    picture_positions(load(find_folder(settings.run)), path, part=settings.part)
    show_picture("positions", path, settings)


def show_step(settings: InspectSettings) -> None:
    found = walk(
        *load_reader(settings, "--step"), settings.step or "", layer=settings.layer or 0, head=settings.head or 0,
        token=settings.token, part=settings.part, target=settings.target,
    )  # fmt: skip
    if settings.json:
        print(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        show_walk(found, make_console())


def show_ablation(settings: InspectSettings) -> None:
    if not settings.ablate:
        raise InputError("--ablate names no head: give one as decoder.blocks.0.cross.3, or '*' for all of them")
    console = make_console()
    found = head_importance(
        settings.run, settings.ablate, data=settings.data, examples=settings.examples, task=settings.task,
        console=None if settings.json else console,
    )  # fmt: skip
    if settings.picture is not None:
        picture_importance(found, settings.picture)
    if settings.json:
        print(json.dumps(asdict(found)))
    else:
        show_importance(found, console)


def show_picture(what: str, path: Path, settings: InspectSettings) -> None:
    print(json.dumps({what: str(path)}, ensure_ascii=False) if settings.json else f"{what}: {path}")


LOOKS: dict[str, Look] = {
    "shapes": Look(show_shapes, ("fold", "batch", "length", "target_length", "html")),
    "params": Look(show_parameters),
    "diff": Look(show_diff),
    "attention": Look(show_attention, ("part", "layer", "head", "average", "rollout", "picture")),
    "lens": Look(show_lens, ("picture",)),
    "align": Look(show_alignment, ("target", "picture")),
    "align_file": Look(show_alignment, ("picture",)),
    "positions": Look(show_positions, ("part", "picture")),
    "step": Look(show_step, ("part", "layer", "head", "token", "target")),
    "ablate": Look(show_ablation, ("examples", "data", "task", "picture")),
}
