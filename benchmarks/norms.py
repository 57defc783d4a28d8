"""Runs the norm study, and writes its picture and tables into `docs/norms.md`.

    python benchmarks/norms.py                            about ten minutes; finished runs in studies/norms are kept

The figures are those of `glassformer study norms`. `--dry` prints them without writing to the pages.
"""

import sys
from pathlib import Path

from PIL import Image
from readme import ROOT, write_table

from glassformer.io import parse_json
from glassformer.study.norms import NUMBERS, PICTURE
from glassformer.study.trials import ORDERS, Study
from glassformer.verbs import study_norms

PAGES = (ROOT / "docs" / "norms.md", ROOT / "docs" / "norms.ko.md")
COLOURS = 128  # in the documentation's picture, which makes the file a third of the size


def gradients_table(study: Study) -> tuple[list[str], list[list[str]]]:
    """The gradients of the first and the last layer before training."""
    header = ["layers", *(f"{order}, {end} layer" for order in ORDERS for end in ("first", "last"))]
    found = {(start.order, start.depth): start.gradients for start in study.starts}
    depths = sorted({depth for _, depth in found})
    rows = [
        [str(depth), *(f"{found[order, depth][end]:.2f}" for order in ORDERS for end in (0, -1))] for depth in depths
    ]
    return header, rows


def losses_table(study: Study) -> tuple[list[str], list[list[str]]]:
    """The held-out loss at the end of each run."""
    kinds = [(order, has) for order in ORDERS for has in (True, False)]
    header = ["layers, learning rate", *(f"{order}, {'warm-up' if has else 'no warm-up'}" for order, has in kinds)]
    found = {(r.trial.depth, r.trial.rate, r.trial.order, r.trial.warmup > 0): study.outcome(r) for r in study.results}
    rows = [
        [f"{depth}, {rate:g}", *(found.get((depth, rate, *kind), "not run").removeprefix("loss ") for kind in kinds)]
        for depth, rate in sorted({key[:2] for key in found})
    ]
    return header, rows


def shrink(picture: Path, place: Path) -> None:
    Image.open(picture).convert("RGB").quantize(COLOURS).save(place, optimize=True)


def main() -> None:
    settings = study_norms.StudyNormsSettings()
    study_norms.main(settings)
    study = Study.from_dict(parse_json(settings.out / NUMBERS))
    write_table("norm gradients", *gradients_table(study), pages=PAGES)
    write_table("norm losses", *losses_table(study), pages=PAGES)
    if "--dry" not in sys.argv:
        shrink(settings.out / PICTURE, ROOT / "docs" / "images" / PICTURE)


if __name__ == "__main__":
    main()
