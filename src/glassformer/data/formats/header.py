"""Detects whether the first row of a table is a header, from its cells and the rows below."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

NUMBER_LIKE = re.compile(r"[-+]?[\d.,:/\- T%+eEZ]*\d[\d.,:/\- T%+eEZ]*")  # numbers, dates and times
NAME_LIKE = re.compile(r"[\w\s()\-/.]+")
WORD_PATTERN = re.compile(r"[^\W\d_]+")
INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
LANGUAGE_TAG = re.compile(r"([a-z]{2,3})[-_][A-Za-z]{2,4}")  # en_XX, eng_Latn, en-US
IDENTIFIER = re.compile(r"[A-Za-z]\w*")
WRITTEN_TOGETHER = re.compile(r"\w_\w|[a-z][A-Z]|[a-z]\d+$")  # source_text, sourceText, sentence1
LONGEST_NAME, MOST_WORDS = 30, 4
FEW, SOME, MANY = 3, 8, 10  # rows needed to judge a column by its numbers, its labels, its length
# Words for column names. Each group is one concept in several languages: a row with two words of one group is a
# translation of that word, not a header.
GROUPS = (
    *("en eng english 영어 englisch anglais inglés", "ko kor kr korean 한국어 한글 koreanisch coréen kokr"),
    *("de deu ger german deutsch allemand 독일어", "fr fra fre french français französisch 프랑스어"),
    *(
        "es spa spanish español spanisch 스페인어",
        "ja jpn jp japanese 일본어 日本語",
        "zh zho chi cn chinese 중국어 中文",
    ),
    *("it ita italian italiano", "pt por portuguese português", "ru rus russian русский", "nl nld dutch"),
    *("pl polish", "tr turkish", "ar arabic", "vi vietnamese 베트남어", "th thai", "id", "cs czech", "sv swedish"),
    *("uk ukrainian", "hi hindi", "fi finnish", "da danish", "el greek", "he hebrew", "hu hungarian", "ro romanian"),
    *("source src 원문 quelle", "target tgt trg trans translation translated 번역 번역문 ziel", "document doc 문서"),
    *(
        "summary abstract 요약",
        "text texts txt 텍스트 본문 내용",
        "label labels class classes category 라벨 분류 레이블",
    ),
    *("sentence sentences sent 문장 satz", "premise", "hypothesis", "question query 질문", "answer response 답변 답"),
    *("review reviews comment comments 리뷰 댓글 평가", "sentiment 감정", "rating score stars 점수 평점", "title 제목"),
    *("content message body tweet", "date datetime time timestamp 날짜 일자 일시", "name 이름", "index idx 번호 no"),
    *("image file filename path 파일 파일명", "input", "output", "url", "value values y x"),
)
GROUP_OF = {word: number for number, words in enumerate(GROUPS) for word in words.split()}


@dataclass(frozen=True)
class Header:
    """Whether there is a header, whether that is certain, and whether it is unusual for such files."""

    is_there: bool
    certain: bool = False
    unusual: bool = False


def find_header(rows: Sequence[Sequence[str]], *, columns: Sequence[str] = (), usual: bool = True) -> Header:
    """Whether the first of these rows is a header. `columns` are names expected in it; `usual` is the default if
    there is no evidence."""
    first, below = [cell.strip() for cell in rows[0]], [[cell.strip() for cell in row] for row in rows[1:]]
    names = [cell for cell in first if cell]
    if any(name.strip() in first for name in columns if not name.isdecimal()):
        return Header(True, certain=True)
    known = [known_name(name) for name in names]
    if names and None not in known:
        is_there = usual or len(set(known)) == len(known)
        return Header(is_there, certain=True, unusual=is_there != usual)
    if is_numbering(first) and not all(map(NUMBER_LIKE.fullmatch, (cell for row in below for cell in row if cell))):
        return Header(True, unusual=not usual)
    said = [speaks(cell, [row[place] for row in below if place < len(row)]) for place, cell in enumerate(first)]
    if -1 in said and 1 not in said:
        return Header(False, unusual=usual)
    if names and all(map(is_name, names)) and len(set(names)) == len(names):
        together = all(map(IDENTIFIER.fullmatch, names)) and any(map(WRITTEN_TOGETHER.search, names))
        if together or (1 in said and -1 not in said) or (not usual and are_longer(first, below)):
            return Header(True, unusual=not usual)
    return Header(usual)


def known_name(cell: str) -> Hashable | None:
    """The known column name of a cell, including its number, if all its words are known."""
    if tag := LANGUAGE_TAG.fullmatch(cell):
        cell = tag[1]
    words = WORD_PATTERN.findall(INNER_CAPITAL.sub(" ", cell))
    groups = [GROUP_OF.get(word.casefold()) for word in words]
    if not words or len(words) > MOST_WORDS or None in groups or not NAME_LIKE.fullmatch(cell):
        return None
    return frozenset(groups), re.sub(r"\D", "", cell)


def are_known(cells: Sequence[str]) -> bool:
    """Whether these are several known column names, each for a different concept."""
    known = [known_name(cell.strip()) for cell in cells if cell.strip()]
    return len(known) > 1 and None not in known and len(set(known)) == len(known)


def is_name(cell: str) -> bool:
    """Whether a cell may be a column name: short, and neither a number nor a sentence."""
    short = len(cell) <= LONGEST_NAME and len(cell.split()) <= MOST_WORDS
    return short and cell[:1].isalpha() and NAME_LIKE.fullmatch(cell) is not None and not cell.endswith(".")


def is_numbering(cells: Sequence[str]) -> bool:
    """Whether these are 0, 1, 2 and so on, as pandas names unnamed columns; its index has an empty name."""
    counted = cells[1:] if cells and not cells[0] else cells
    return len(counted) > 1 and list(counted) == [str(number) for number in range(len(counted))]


def speaks(cell: str, below: Sequence[str]) -> int:
    """Whether a cell differs from those below it (1), which suggests a header, is like them (-1), or neither (0)."""
    below = [other for other in below if other]
    if not cell or len(below) < FEW:
        return 0
    if all(map(NUMBER_LIKE.fullmatch, below)):
        return -1 if NUMBER_LIKE.fullmatch(cell) else 1
    if len(below) >= SOME and 4 * len(set(below)) <= len(below):
        return -1 if cell in below else 1
    foreign = sum(not other.isascii() for other in below)
    return 1 if cell.isascii() and len(below) >= SOME and foreign >= 0.9 * len(below) else 0


def are_longer(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether all texts of every column are much longer than its first cell."""
    for place, cell in enumerate(first):
        lengths = [len(row[place]) for row in below if place < len(row)]
        if len(lengths) < MANY or min(lengths) < max(20, 3 * len(cell)):
            return False
    return True
