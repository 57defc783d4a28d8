"""The built-in dates, files of pairs, and batches."""

import re
from datetime import date
from pathlib import Path

import pytest

from glassformer.data.batches import bucketed, in_order
from glassformer.data.dates import MONTHS, WEEKDAYS, clock_times, date_pairs, korean_time, make_pair, spoken_times
from glassformer.data.files import read_lines
from glassformer.data.pairs import Pair, read_pairs
from glassformer.errors import InputError
from glassformer.text.padding import pad

KOREAN = re.compile(
    r"(?P<y>\d{4})년 (?P<m>\d{1,2})월 (?P<d>\d{1,2})일(?: (?P<w>[월화수목금토일])요일)?"
    r"(?: (?P<half>오전|오후) (?P<hour>\d{1,2})시(?: (?P<minute>\d{1,2})분)?)?"
)


def day_of(pair: Pair) -> date:
    match = KOREAN.fullmatch(pair.target)
    assert match, pair.target
    return date(int(match["y"]), int(match["m"]), int(match["d"]))


def test_the_translation_is_the_date_that_the_phrase_says() -> None:
    for pair in date_pairs(2000, seed=3):
        day = day_of(pair)
        assert str(day.year) in pair.source
        assert MONTHS[day.month - 1][:3] in pair.source or f"{day.month:02}-{day.day:02}" in pair.source
        weekday = KOREAN.fullmatch(pair.target)["w"]  # type: ignore[index]
        assert (weekday is not None) == any(re.search(rf"\b{name[:3]}", pair.source) for name in WEEKDAYS)
        assert weekday in (None, "월화수목금토일"[day.weekday()])


@pytest.mark.parametrize(
    ("hour", "minute", "english", "korean"),
    [
        (16, 30, "half past four in the afternoon", "오후 4시 30분"),
        (15, 40, "15:40", "오후 3시 40분"),
        (15, 40, "twenty to four in the afternoon", "오후 3시 40분"),
        (0, 0, "midnight", "오전 12시"),
        (12, 0, "noon", "오후 12시"),
        (9, 5, "9:05 a.m.", "오전 9시 5분"),
        (23, 45, "a quarter to twelve in the evening", "오후 11시 45분"),
        (0, 50, "ten to one in the morning", "오전 12시 50분"),
    ],
)
def test_times_are_said_as_people_say_them(hour: int, minute: int, english: str, korean: str) -> None:
    assert english in clock_times(hour, minute) + spoken_times(hour, minute)
    assert korean_time(hour, minute) == korean


def test_no_phrase_says_two_different_times() -> None:
    meaning: dict[str, str] = {}
    for hour in range(24):
        for minute in range(60):
            for phrase in clock_times(hour, minute) + spoken_times(hour, minute):
                assert meaning.setdefault(phrase, korean_time(hour, minute)) == korean_time(hour, minute), phrase


def test_held_out_phrases_and_dates_never_occur_in_training() -> None:
    training, held_out = date_pairs(40_000, seed=0), date_pairs(500, seed=0, held_out=True)
    assert not {pair.source for pair in training} & {pair.source for pair in held_out}
    assert not {day_of(pair) for pair in training} & {day_of(pair) for pair in held_out}
    assert len({pair.source for pair in held_out}) == 500


def test_every_way_to_say_a_time_is_trained_and_held_out() -> None:
    ways = ("noon", "midnight", "o'clock", "half past", "quarter past", "twenty to", ":", "a.m.", ".")
    for pairs, least in ((date_pairs(40_000, seed=0), 200), (date_pairs(500, seed=0, held_out=True), 2)):
        for way in ways:
            assert sum(way in pair.source for pair in pairs) >= least, way


def test_the_seed_alone_decides_the_data() -> None:
    assert date_pairs(50, seed=1) == date_pairs(50, seed=1)
    assert date_pairs(50, seed=1) != date_pairs(50, seed=2)


def test_there_are_many_styles() -> None:
    import random

    rng = random.Random(0)
    shapes = {re.sub(r"\d+", "0", make_pair(rng, date(1998, 3, 3)).source) for _ in range(3000)}
    assert len(shapes) > 300


def test_pairs_from_one_file_and_from_two(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("one\t하나\ntwo\t둘\n", encoding="utf-8")
    (tmp_path / "a.en").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "a.ko").write_text("하나\n둘\n", encoding="utf-8")
    expected = [Pair("one", "하나"), Pair("two", "둘")]
    assert list(read_pairs(tmp_path / "pairs.tsv")) == expected
    assert list(read_pairs(tmp_path / "a.en", tmp_path / "a.ko")) == expected


def test_a_line_ends_at_a_newline_and_nowhere_else(tmp_path: Path) -> None:
    """str.splitlines would cut at U+2028 and U+0085 as well, and put aligned files out of step."""
    (tmp_path / "a.en").write_text("one\u2028still one\ntwo\x85still two\r\n", encoding="utf-8", newline="")
    assert read_lines(tmp_path / "a.en") == ["one\u2028still one", "two\x85still two"]


def test_files_that_cannot_be_used_are_named_with_line_and_value(tmp_path: Path) -> None:
    (tmp_path / "three.tsv").write_text("one\t하나\nno tab here\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"three\.tsv, line 2: 1 columns, expected source<TAB>target: 'no tab here'"):
        read_pairs(tmp_path / "three.tsv")
    (tmp_path / "korean.tsv").write_bytes(b"one\thana\n" + "둘\ttwo".encode("cp949"))
    with pytest.raises(InputError, match=r"korean\.tsv, line 2: byte 0xb5 is not UTF-8"):
        read_pairs(tmp_path / "korean.tsv")
    (tmp_path / "empty.tsv").touch()
    with pytest.raises(InputError, match=r"empty\.tsv is empty"):
        read_pairs(tmp_path / "empty.tsv")
    with pytest.raises(InputError, match=r"nowhere\.tsv: there is no such file"):
        read_pairs(tmp_path / "nowhere.tsv")
    (tmp_path / "long.en").write_text("a\nb\n", encoding="utf-8")
    (tmp_path / "short.ko").write_text("a\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"long\.en has 2 lines and .*short\.ko has 1: they must be aligned"):
        read_pairs(tmp_path / "long.en", tmp_path / "short.ko")
    with pytest.raises(InputError, match="is a folder"):
        read_pairs(tmp_path)


def test_batches_hold_every_example_once_within_the_budget() -> None:
    lengths = [1 + (i * 37) % 23 for i in range(1000)]
    batches = bucketed(lengths, max_tokens=64, seed=0, epoch=0)
    assert sorted(i for batch in batches for i in batch) == list(range(1000))
    assert all(len(batch) * max(lengths[i] for i in batch) <= 64 for batch in batches)
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    assert padded < 1.05 * sum(lengths), "bucketing leaves little padding"


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    lengths = list(range(1, 60))
    assert bucketed(lengths, 64, seed=1, epoch=2) == bucketed(lengths, 64, seed=1, epoch=2)
    assert bucketed(lengths, 64, seed=1, epoch=2) != bucketed(lengths, 64, seed=1, epoch=3)
    assert bucketed([100], 64, seed=0, epoch=0) == [[0]], "an example longer than the budget is a batch by itself"


def test_the_order_of_batches_stays_what_it_was() -> None:
    """A run that is resumed, or repeated with a later version, sees the same batches."""
    assert bucketed([3, 1, 4, 1, 5, 9, 2, 6], 10, seed=0, epoch=0) == [[5], [7], [1, 3, 6], [0, 2], [4]]


def test_batches_hold_no_more_examples_than_asked_for() -> None:
    lengths = [1 + i % 3 for i in range(100)]
    batches = bucketed(lengths, 64, seed=0, epoch=0, max_examples=7)
    assert sorted(i for batch in batches for i in batch) == list(range(100))
    assert max(map(len, batches)) == 7
    with pytest.raises(InputError, match="max_examples 0: expected 1 or more"):
        bucketed(lengths, 64, seed=0, epoch=0, max_examples=0)


def test_batches_of_one_size() -> None:
    batches = in_order(10, 4, seed=0, epoch=0)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(i for batch in batches for i in batch) == list(range(10))
    assert batches == in_order(10, 4, seed=0, epoch=0)
    assert in_order(100, 100, seed=0, epoch=0) != in_order(100, 100, seed=0, epoch=1)
    assert in_order(100, 100, seed=0, epoch=0) != in_order(100, 100, seed=1, epoch=0)


def test_padding_on_either_side() -> None:
    assert pad([[1, 2], [3]], 0).tolist() == [[1, 2], [3, 0]]
    assert pad([[1, 2], [3]], 9, left=True).tolist() == [[1, 2], [9, 3]]
