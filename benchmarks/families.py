"""Lines of code in `families/`, compared with the same families in transformers.

    python benchmarks/families.py

Ours: every line of every family's file. Theirs: the modeling and configuration files of the same model types. Code
that families share (their masks, caches, rotary positions and generation; our core) is not counted.
"""

from importlib import import_module, resources
from pathlib import Path

from readme import write_table

from glassformer import families

FOLDERS = {"xlm-roberta": "xlm_roberta", "gemma3_text": "gemma3"}


def lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def main() -> None:
    pages = [lines(Path(str(import_module(f"glassformer.families.{name}").__file__))) for name in families.PAGES]
    models = Path(str(resources.files("transformers"))) / "models"
    theirs = 0
    for model_type in families.FAMILIES:
        folder = models / FOLDERS.get(model_type, model_type)
        theirs += sum(lines(file) for kind in ("modeling", "configuration") for file in folder.glob(f"{kind}_*.py"))
    count = len(families.FAMILIES)
    header = ["lines of code", f"{len(pages)} files, {count} model types", "average", "longest"]
    rows = [
        ["glassformer/families", f"{sum(pages):,}", f"{sum(pages) / len(pages):.0f} per file", f"{max(pages)}"],
        ["the same families in transformers", f"{theirs:,}", f"{theirs / count:,.0f} per type", "-"],
    ]
    write_table("families", header, rows)


if __name__ == "__main__":
    main()
