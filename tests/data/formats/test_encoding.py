"""Encodings are detected if they are certain, and refused if text would be garbled."""

from pathlib import Path
from typing import Any

import pytest
from helpers.shared import shared

from glassformer.data.files import read_lines, stream_lines, stream_text
from glassformer.data.formats.encoding import find_encoding
from glassformer.errors import InputError

# "All human beings are born free and equal in dignity and rights ...": the languages of the world.
GERMAN = "Alle Menschen sind frei und gleich an Würde und Rechten geboren. „Größe“ – müde…"
FRENCH = "Tous les êtres humains naissent libres et égaux en dignité. À l’été, où ça ? Cœur naïf."
SPANISH = "Todos los seres humanos nacen libres e iguales en dignidad y derechos. ¿Qué? ¡Sí, mañana! 3ª"
PORTUGUESE = "Todos os seres humanos nascem livres e iguais em dignidade e em direitos. AÇÕES, ações, não é"
SWEDISH = "Alla människor är födda fria och lika i värde och rättigheter. Å, ön."
ENGLISH = "It’s the “best” film – really… don’t miss it for €5"
KOREAN = "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. ㅋㅋ"
RUSSIAN = "Все люди рождаются свободными и равными в своем достоинстве и правах."
GREEK = "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια."
POLISH = "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw."
CZECH = "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv."
HUNGARIAN = "Minden emberi lény szabadon születik és egyenlő méltósága és joga van, idő, gyűlés."
TURKISH = "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar."
ICELANDIC = "Hver maður er borinn frjáls og jafn öðrum að virðingu og réttindum."
CHINESE = "人人生而自由,在尊严和权利上一律平等。"
TRADITIONAL = "人人生而自由,在尊嚴和權利上一律平等。"
JAPANESE = "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。"


@pytest.mark.parametrize("text", [GERMAN, FRENCH, SPANISH, PORTUGUESE, SWEDISH, ENGLISH])
def test_western_europe(text: str) -> None:
    found = find_encoding(text.encode("cp1252"), "a.txt", whole=True)
    assert (found.codec, text.encode("cp1252").decode(found.codec)) == ("cp1252", text)
    assert f"guessed from {found.word!r}" in str(found)
    assert found.word in text
    assert find_encoding(text.encode(), "a.txt", whole=True).name == "UTF-8"


@pytest.mark.parametrize("codec", ["cp949", "euc-kr"])
def test_korea(codec: str) -> None:
    found = find_encoding(KOREAN.encode(codec), "a.txt", whole=True)
    assert KOREAN.encode(codec).decode(found.codec) == KOREAN
    assert find_encoding(KOREAN.encode(codec)[:-1], "a.txt", whole=False).codec == "cp949", "cut inside a character"


@pytest.mark.parametrize(
    ("text", "codecs"),
    [
        (RUSSIAN, ["cp1251", "koi8-r", "cp866", "iso8859-5"]),
        (GREEK, ["cp1253", "iso8859-7"]),
        (POLISH, ["cp1250", "iso8859-2"]),
        (CZECH, ["cp1250", "iso8859-2"]),
        (HUNGARIAN, ["cp1250"]),
        (TURKISH, ["cp1254"]),
        (ICELANDIC, ["cp1252"]),  # the same bytes are other letters in Turkish
        (CHINESE, ["gbk"]),
        (TRADITIONAL, ["big5"]),
        (JAPANESE, ["shift_jis", "euc-jp", "iso2022_jp"]),
        ("café, schön, naïf", ["mac_roman", "cp850"]),
        (KOREAN, ["johab"]),
        ("둘", ["cp949"]),  # too short to be certain
    ],
)
def test_what_is_not_certain_is_refused(text: str, codecs: list[str]) -> None:
    for codec in codecs:
        content = text.encode(codec)
        with pytest.raises(InputError, match="--encoding"):
            find_encoding(content, "a.txt", whole=True)
        named = find_encoding(content, "a.txt", whole=True, asked=codec)
        assert content.decode(named.codec) == text


def test_a_late_wrong_byte_is_told_where_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoding detected at the beginning may be wrong later: the error names the line, and nothing is replaced."""
    monkeypatch.setattr("glassformer.data.files.BLOCK", 16)
    file = tmp_path / "a.txt"
    beginnings = {"UTF-8": "only ascii here", "CP1252": "schön und müde "}
    for name, text in beginnings.items():
        codec = "ascii" if name == "UTF-8" else "cp1252"
        file.write_bytes((text + "\n" + "more\n" * 9).encode(codec) + b"b\x81d\n")
        for read in (stream_lines, stream_text, read_lines):
            with pytest.raises(InputError, match=rf"a\.txt, line 11: byte 0x81 is not {name}\..*--encoding"):
                list(read(file))  # type: ignore[operator]


@pytest.mark.parametrize(("codec", "text", "other"), [("cp949", KOREAN, "별로예요"), ("cp1252", GERMAN, "Größe")])
@pytest.mark.parametrize("read", [stream_lines, stream_text, read_lines])
def test_a_line_in_utf8_behind_another_encoding_is_told(
    read: Any, codec: str, text: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two exports in one file: one of them would be garbled, since nearly every byte is valid in CP1252."""
    monkeypatch.setattr("glassformer.data.files.BLOCK", len(text.encode(codec)) + 9)
    file = tmp_path / "a.txt"
    file.write_bytes((text + "\n" + "more\n" * 9).encode(codec) + other.encode() + b"\n")
    with pytest.raises(InputError) as error:
        list(read(file))
    assert str(error.value).startswith(f"{file}, line 11 is UTF-8, but the file begins as {codec.upper()} (")
    assert "--encoding" in str(error.value)
    file.write_bytes((text + "\n" + "more\n" * 9 + text).encode(codec))
    assert list(read(file)), "one encoding alone is read"


def test_syllables_of_cp949_that_are_utf8_by_accident_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(f"{KOREAN}\n짜짝\n".encode("cp949"))
    assert "짜짝".encode("cp949").decode() == "¥¦", "two characters of UTF-8"
    assert read_lines(file)[1] == "짜짝"


def test_line_ends_of_two_kinds_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.data.files.BLOCK", 8)
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\rtwo\rthree\nfour\rfive")
    with pytest.raises(InputError, match=r"a\.txt, line 3 has a line feed.*Save the file with one kind of line ends"):
        list(stream_lines(file))


def test_the_encoding_of_the_training_is_taken_where_it_fits() -> None:
    told = {"whole": True, "trained": "shift_jis"}
    assert find_encoding(JAPANESE.encode("shift_jis"), "a.txt", **told).codec == "shift_jis"  # type: ignore[arg-type]
    assert find_encoding(JAPANESE.encode(), "a.txt", **told).codec == "utf-8"  # type: ignore[arg-type]
    assert find_encoding(JAPANESE.encode("utf-16"), "a.txt", **told).codec == "utf-16"  # type: ignore[arg-type]


def test_real_texts() -> None:
    for language in ("de", "fr"):
        text = shared(f"multi30k/val.{language}").read_text(encoding="utf-8")
        assert find_encoding(text.encode("cp1252", "ignore"), language, whole=True).codec == "cp1252"
