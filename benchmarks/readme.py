"""Writes measured tables between their markers in docs/measured.md and its Korean page, or in other pages.

    python benchmarks/readme.py     copies figures from docs/measured.md into the table of the README

The README repeats a few cells of the measured tables. `write_table` updates them whenever it writes a table.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from korean import korean

ROOT = Path(__file__).parent.parent
MEASURED = (ROOT / "docs" / "measured.md", ROOT / "docs" / "measured.ko.md")
READMES = (ROOT / "README.md", ROOT / "README.ko.md")
Tables = dict[str, tuple[list[str], list[list[str]]]]  # name -> header and rows


class Figure(NamedTuple):
    """A row of the README's table. `{table|row|column}` is replaced by a measured cell."""

    what: str
    in_korean: str
    ours: str
    peers: str
    command: str


FIGURES = (
    Figure(
        "GPT-2 small generates, batch 1, tokens/s",
        "GPT-2 small 생성, 배치 1, 초당 토큰 수",
        "{speed|GPT-2 small, batch 1|engine}",
        "transformers {speed|GPT-2 small, batch 1|transformers}, CTranslate2 {speed|GPT-2 small, batch 1|CTranslate2}",
        "benchmarks/speed.py",
    ),
    Figure(
        "GPT-2 small generates, batch 8, tokens/s",
        "GPT-2 small 생성, 배치 8, 초당 토큰 수",
        "{speed|GPT-2 small, batch 8|engine}",
        "transformers {speed|GPT-2 small, batch 8|transformers}, CTranslate2 {speed|GPT-2 small, batch 8|CTranslate2}",
        "benchmarks/speed.py",
    ),
    Figure(
        "the paper's base model, 4 beams, batch 32, tokens/s",
        "논문의 base 모델, 빔 4, 배치 32, 초당 토큰 수",
        "{speed|the paper's base, beam 4, batch 32|engine}",
        "transformers {speed|the paper's base, beam 4, batch 32|transformers}, "
        "CTranslate2 {speed|the paper's base, beam 4, batch 32|CTranslate2}",
        "benchmarks/speed.py",
    ),
    Figure(
        "BERT-base encodes 256 texts of mixed length, tokens/s",
        "BERT-base, 길이가 제각각인 텍스트 256개, 초당 토큰 수",
        "{speed|BERT-base, 256 texts of 4 to 256 tokens|engine}",
        "transformers {speed|BERT-base, 256 texts of 4 to 256 tokens|transformers}, "
        "CTranslate2 {speed|BERT-base, 256 texts of 4 to 256 tokens|CTranslate2}, "
        "{speed|BERT-base, 256 texts of 4 to 256 tokens|others}",
        "benchmarks/speed.py",
    ),
    Figure(
        "training a small GPT, tokens/s",
        "작은 GPT 학습, 초당 토큰 수",
        "**{train|glassformer|tokens/s}**",
        "transformers {train|transformers' GPT-2, plain loop|tokens/s} ({train|glassformer|ratio})",
        "benchmarks/train.py",
    ),
    Figure(
        "GPT-2 from disk to its first logits",
        "GPT-2, 디스크에서 첫 로짓까지",
        "**{load|gpt2, 498 MB: glassformer|load + forward}**",
        "transformers {load|gpt2, 498 MB: transformers|load + forward}",
        "benchmarks/load.py",
    ),
    Figure(
        "memory of a causal, padded layer, 8,192 tokens",
        "패딩이 있는 인과 층 하나의 메모리, 8,192토큰",
        "**{core|memory of one causal, padded layer, 8,192 tokens|Glassformer}**",
        "`nn.Transformer` {core|memory of one causal, padded layer, 8,192 tokens|`nn.Transformer`}",
        "benchmarks/core.py",
    ),
    Figure(
        "lines of code for all families",
        "모든 모델 계열의 코드, 줄 수",
        "**{families|glassformer/families|#1}**",
        "transformers {families|the same families in transformers|#1}",
        "benchmarks/families.py",
    ),
    Figure(
        "unseen dates translated exactly after one minute of training",
        "1분 학습한 뒤 처음 보는 날짜를 정확히 번역한 비율",
        "**{demo|exact match on held-out dates|measured}**",
        "-",
        "benchmarks/demo.py",
    ),
    Figure(
        "`train lm` on built-in text, bits per byte",
        "`train lm`, 내장 텍스트, 바이트당 비트",
        "{tasks|`train lm`|Glassformer}",
        "{tasks|`train lm`|baselines}",
        "benchmarks/tasks.py",
    ),
    Figure(
        "`train forecast` on built-in series, MSE",
        "`train forecast`, 내장 시계열, MSE",
        "{tasks|`train forecast`|Glassformer}",
        "{tasks|`train forecast`|baselines}",
        "benchmarks/tasks.py",
    ),
    Figure(
        "unseen images captioned without an error after four minutes of training",
        "4분 학습한 뒤 처음 보는 이미지의 캡션을 완전히 맞힌 비율",
        "{scenes|`train caption`: captions fully correct|Glassformer}",
        "{scenes|`train caption`: captions fully correct|baselines}",
        "benchmarks/scenes.py",
    ),
    Figure(
        "time added by recording one head, output bit-identical",
        "헤드 하나를 기록할 때 늘어나는 시간 (출력은 비트까지 같음)",
        "**{watch|one head of one layer recorded, every row|for comparison}**",
        "-",
        "benchmarks/watch.py",
    ),
    Figure(
        "word alignment error, no labels used",
        "정답 없이 찾은 단어 정렬의 오류율",
        "**{align|mean|heads chosen without labels}**",
        "{align|mean|last layer, heads averaged} (last layer)",
        "benchmarks/align.py",
    ),
)
HEADER = ["two CPU cores", "Glassformer", "others (our speedup)", "measured by"]
KOREAN_HEADER = ["CPU 코어 두 개", "Glassformer", "비교 대상 (우리가 몇 배 빠른지)", "측정 스크립트"]


def write_table(
    name: str,
    header: list[str],
    rows: list[list[str]],
    *,
    optional: bool = False,
    dry: bool = False,
    pages: Sequence[Path] = MEASURED,
) -> None:
    print(table_of(header, rows))
    if not dry:
        write(name, header, rows, optional=optional, pages=pages)
        if pages is MEASURED:
            write_figures()


def table_of(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def write(
    name: str,
    header: list[str],
    rows: list[list[str]],
    *,
    optional: bool = False,
    pages: Sequence[Path] = MEASURED,
) -> None:
    """Writes a table between `<!-- NAME -->` and `<!-- /NAME -->` of each page, unless `--dry` was given.

    A `.ko.md` page gets it in Korean. A page without these markers is an error, or is skipped if `optional`.
    """
    if "--dry" in sys.argv:
        return
    for page in pages:
        if page.name.endswith(".ko.md"):
            text = table_of([korean(cell) for cell in header], [[korean(cell) for cell in row] for row in rows])
        else:
            text = table_of(header, rows)
        put(name, text, page, optional=optional)


def put(name: str, text: str, page: Path, *, optional: bool = False) -> None:
    """Writes a text between the markers of a page."""
    old = page.read_text(encoding="utf-8")
    place = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
    if place.search(old) is None and not optional:
        sys.exit(f"{page.name} has no markers for {name!r}. Add <!-- {name} --> and <!-- /{name} -->")
    page.write_text(place.sub((text + "\n").replace("\\", r"\\"), old), encoding="utf-8")


def read_tables(page: Path) -> Tables:
    """The measured tables of a page, by name."""
    found = re.findall(r"<!-- ([\w ]+) -->\n(\|.*?)\n<!-- /\1 -->", page.read_text(encoding="utf-8"), re.DOTALL)
    tables = {}
    for name, text in found:
        header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
        tables[name] = header, rows
    return tables


def cell_of(tables: Tables, place: str) -> str:
    """The cell at `table|row|column`. `#2` is column 2, counted from 0, for headers that change."""
    name, row, column = place.split("|")
    header, rows = tables.get(name, ([], []))
    index = int(column[1:]) if column.startswith("#") else header.index(column) if column in header else None
    cells = next((cells for cells in rows if cells[0] == row), None)
    if cells is None or index is None:
        sys.exit(
            f"docs/measured.md has no cell {place!r}, which the README shows. Change FIGURES in benchmarks/readme.py"
        )
    return cells[index]


def figures(tables: Tables, *, in_korean: bool) -> list[list[str]]:
    """The rows of the README's table."""

    def filled(text: str) -> str:
        return re.sub(r"\{([^}]+)\}", lambda place: cell_of(tables, place[1]), text)

    return [[f.in_korean if in_korean else f.what, filled(f.ours), filled(f.peers), f"`{f.command}`"] for f in FIGURES]


def write_figures() -> None:
    tables = read_tables(MEASURED[0])
    for page, header, is_korean in zip(READMES, (HEADER, KOREAN_HEADER), (False, True), strict=True):
        write("figures", header, figures(tables, in_korean=is_korean), pages=[page])


if __name__ == "__main__":
    write_figures()
