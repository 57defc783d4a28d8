"""The built-in dates: the meaning of a phrase, the variety of styles, and the held-out dates."""

import re
from datetime import date

import pytest

from glassformer.data.dates import MONTHS, WEEKDAYS, clock_times, date_pairs, korean_time, make_pair, spoken_times
from glassformer.data.pairs import TextPair

KOREAN = re.compile(
    r"(?P<y>\d{4})년 (?P<m>\d{1,2})월 (?P<d>\d{1,2})일(?: (?P<w>[월화수목금토일])요일)?"
    r"(?: (?P<half>오전|오후) (?P<hour>\d{1,2})시(?: (?P<minute>\d{1,2})분)?)?"
)


def day_of(pair: TextPair) -> date:
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
