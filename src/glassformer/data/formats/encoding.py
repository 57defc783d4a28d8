"""The encoding of a text file: from its first bytes, or from --encoding.

Detects UTF-8, UTF-16 with a byte order mark, CP949 (which includes EUC-KR) and CP1252. Bytes that are not UTF-8 are
read as one of the last two only if they make sense in one and not in the other. Everything else is refused.
"""

import codecs
import re
from collections import Counter
from dataclasses import dataclass

from glassformer.errors import InputError

BYTE_ORDER_MARKS = {  # byte order marks, the longer ones first, because one begins with another
    b"\xff\xfe\0\0": ("utf-32", "UTF-32"),
    b"\0\0\xfe\xff": ("utf-32", "UTF-32"),
    b"\xef\xbb\xbf": ("utf-8", "UTF-8"),
    b"\xff\xfe": ("utf-16", "UTF-16"),
    b"\xfe\xff": ("utf-16", "UTF-16"),
}
ZEROS = 0.1  # share of zero bytes above which a file is not text, or is UTF-16 without a mark
ESCAPES = re.compile(rb"\x1b\$[@B)]")  # ISO-2022 switches to Japanese or Korean with these
SETTLE = "Give its encoding, such as --encoding cp949 (Korean) or --encoding cp1252 (Western European)"
MIN_HANGUL = 4  # Hangul syllables needed to detect CP949; fewer may be a coincidence

# Characters of Western European texts in CP1252. The letters of Czech, Polish, Turkish or Icelandic are
# not among them, because other encodings use the same bytes for other letters.
LATIN_LETTERS = "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüŒœ"
JOINS = "’–—…·"  # punctuation that may occur between two letters
COMMON_SIGNS = JOINS + "‘“”„‚‹›«»•€£¥§°©®™´¿¡ªº¹²³½¼¾×†‡‰µ\xa0"
OUTSIDE = re.compile(rf"[^\x00-\x7f{LATIN_LETTERS}{re.escape(COMMON_SIGNS)}]")
CROWD = re.compile(r"[^\x00-\x7f]{4,}")
INSIDE_A_WORD = re.compile(
    rf"(?<=[A-Za-z{LATIN_LETTERS}])[{re.escape(''.join(set(COMMON_SIGNS) - set(JOINS)))}](?=[A-Za-z{LATIN_LETTERS}])"
)
BESIDE_A_LETTER = re.compile(rf"[°§©®™ªº¹²³½¼¾×µ£¥•†‡‰][{LATIN_LETTERS}]|[{LATIN_LETTERS}][°§©®ªº¹²³½¼¾×µ£¥¿¡]")
WITHOUT_ASCII = re.compile(rf"(?<![A-Za-z{LATIN_LETTERS}])[{LATIN_LETTERS}]{{2,}}(?![A-Za-z{LATIN_LETTERS}])")
WESTERN = re.compile(
    rf"(?<=[A-Za-z])[{LATIN_LETTERS}]|[{LATIN_LETTERS}](?=[A-Za-z])|"
    r"(?<=[A-Za-z])’(?=[A-Za-z])|“(?=[A-Za-z])|€(?=\d)|(?<=\d)[ \xa0]?€"
)
BEHIND_A_WORD = re.compile(rf"[A-Za-z{LATIN_LETTERS}]{{3}}[¹²³]|[A-Za-z][¿¡]")
ODD = (OUTSIDE, CROWD, INSIDE_A_WORD, BESIDE_A_LETTER, BEHIND_A_WORD, WITHOUT_ASCII)
HUNGARIAN = ("õûÕÛ", "öüÖÜ", "áíóúÁÍÓÚ")  # no Western European language has letters of all three groups
TOLERATED = 0.005  # share of non-ASCII characters that may be odd: a long text has a few typos
FOREIGN_WORD, FOREIGN_SIGN = re.compile(r"\w*[^\W\x00-\x7f]\w*"), re.compile(r"\S*[^\x00-\x7f]\S*")


@dataclass(frozen=True)
class Encoding:
    """A codec by Python's name and its common name; `word` is the evidence if it was guessed."""

    codec: str
    name: str
    word: str = ""
    asked: bool = False  # set by --encoding

    def __str__(self) -> str:
        if self.asked:
            return f"{self.name} (--encoding)"
        return f"{self.name} (guessed from {self.word!r}; choose another with --encoding)" if self.word else self.name

    @property
    def is_plain(self) -> bool:
        """Whether the newline byte occurs only at the end of a line."""
        return "\n".encode(self.codec) == b"\n"


UTF8 = Encoding("utf-8", "UTF-8")


@dataclass(frozen=True)
class TextFormat:
    """The format of a text: its encoding, and whether lines end in a carriage return only, as on old Macs."""

    encoding: Encoding = UTF8
    returns: bool = False

    def __str__(self) -> str:
        return f"{self.encoding}{', old Mac line ends' if self.returns else ''}"


def find_text_format(
    head: bytes, name: str, *, whole: bool, asked: str | None = None, trained: str | None = None
) -> TextFormat:
    """The format of a file that begins with `head`, which may be the `whole` file."""
    encoding = find_encoding(head, name, whole=whole, asked=asked, trained=trained)
    text = decoded(head, encoding)
    return TextFormat(encoding, returns="\r" in text and "\n" not in text)


def decoded(head: bytes, encoding: Encoding) -> str:
    """The beginning of a file as text, without its byte order mark; wrong bytes are reported when the file is read."""
    return head.decode(encoding.codec, "ignore").removeprefix("\ufeff")


def find_encoding(
    head: bytes, name: str, *, whole: bool, asked: str | None = None, trained: str | None = None
) -> Encoding:
    """The encoding of a file that begins with `head`, which may be the `whole` file. If the file is not UTF-8, the
    encoding given in training (`trained`) is used."""
    marked = next((Encoding(*known) for mark, known in BYTE_ORDER_MARKS.items() if head.startswith(mark)), None)
    if asked is not None:
        return asked_encoding(asked, marked, name)
    if marked is not None:
        return marked
    if trained is not None and not is_plain_utf8(head, whole=whole):
        return asked_encoding(trained, marked, name)
    if head.count(0) > ZEROS * len(head):
        raise InputError(
            f"{name} has zero bytes, so it is not text, or UTF-16 without a byte order mark. If it is text, use "
            "--encoding utf-16-le or --encoding utf-16-be"
        )
    if ESCAPES.search(head):
        raise InputError(f"{name} has ISO-2022 escape sequences. Use --encoding iso2022_jp or --encoding iso2022_kr")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
    except UnicodeDecodeError as error:
        return guess_encoding(head, name, whole, error)
    return UTF8


def is_plain_utf8(head: bytes, *, whole: bool) -> bool:
    """Whether a file may be UTF-8: it has neither wrong bytes nor signs of another encoding."""
    if head.count(0) > ZEROS * len(head) or ESCAPES.search(head):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def asked_encoding(asked: str, marked: Encoding | None, name: str) -> Encoding:
    try:
        codec = codecs.lookup(asked)
        "a".encode(codec.name)
    except LookupError:
        raise InputError(
            f"--encoding {asked}: there is no such text encoding. Use utf-8, utf-16, cp949, euc-kr, cp1252, "
            "latin-1, shift_jis, gbk, big5 or another encoding of Python"
        ) from None
    if marked is not None and not codec.name.startswith(marked.codec):
        raise InputError(f"{name} begins with the byte order mark of {marked.name}: leave --encoding {asked} out")
    return Encoding("utf-8" if codec.name == "utf-8-sig" else codec.name, asked, asked=True)


def guess_encoding(head: bytes, name: str, whole: bool, error: UnicodeDecodeError) -> Encoding:
    """CP949 or CP1252, if exactly one of them makes sense."""
    line, byte = head.count(b"\n", 0, error.start) + 1, head[error.start]
    broken = head.decode("utf-8", "replace")
    bad = broken.count("\ufffd")
    good = outside_ascii(broken) - bad
    if good >= 3 * bad:
        raise InputError(
            f"{name}, line {line}: byte 0x{byte:02x} is not UTF-8, but {good:,} other characters are. Repair the line, "
            "or give the encoding of the file with --encoding"
        )
    found = []
    for codec, makes_sense in (("cp949", is_korean), ("cp1252", is_western)):
        try:
            text = codecs.getincrementaldecoder(codec)().decode(head, final=whole)
        except UnicodeDecodeError:
            continue
        if makes_sense(text):
            word = FOREIGN_WORD.search(text) or FOREIGN_SIGN.search(text)
            found.append(Encoding(codec, codec.upper(), word[0][:20] if word else ""))
    if len(found) != 1:
        raise InputError(
            f"{name}, line {line}: byte 0x{byte:02x} is not UTF-8, and no other encoding is certain. {SETTLE}"
        )
    return found[0]


def is_korean(text: str) -> bool:
    """Whether nearly all letters are Hangul, and nearly all syllables the common ones of KS X 1001."""
    letters = Counter({sign: count for sign, count in Counter(text).items() if not sign.isascii() and sign.isalpha()})
    syllables = Counter({sign: count for sign, count in letters.items() if "가" <= sign <= "힣"})
    common = sum(count for sign, count in syllables.items() if is_common(sign))
    single = sum(count for sign, count in letters.items() if "ㄱ" <= sign <= "ㆎ")  # as in ㅋㅋ and ㅠㅠ
    total, count = letters.total(), syllables.total()
    return count >= MIN_HANGUL and count + single >= 0.9 * total and count >= 0.6 * total and common >= 0.9 * count


def is_western(text: str) -> bool:
    """Whether accented letters occur among plain ones, and punctuation where it belongs."""
    if not WESTERN.search(text):
        return False
    if all(set(some) & set(text) for some in HUNGARIAN):
        return False
    odd = sum(len(pattern.findall(text)) for pattern in ODD)
    return odd <= TOLERATED * outside_ascii(text)


def outside_ascii(text: str) -> int:
    return len(text) - len(text.encode("ascii", "ignore"))


def is_common(syllable: str) -> bool:
    """Whether a syllable is in KS X 1001; CP949 added the others."""
    return min(syllable.encode("cp949")) >= 0xA1


def is_mixed(line: bytes, encoding: Encoding) -> bool:
    """Whether a line is UTF-8 although another encoding was detected: then the file has two encodings.

    A few Korean syllables of CP949 are by coincidence valid two-byte UTF-8 characters, but none are three-byte ones.
    """
    if line.isascii() or not encoding.word:
        return False
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return encoding.codec != "cp949" or any(sign >= "\u0800" for sign in text)


def two_encodings(name: str, line: int, encoding: Encoding) -> InputError:
    return InputError(
        f"{name}, line {line} is UTF-8, but the file begins as {encoding.name} ({encoding.word!r}): it has two "
        "encodings. Save all of it as UTF-8, or give one encoding with --encoding"
    )


def wrong_byte(name: str, line: int, error: UnicodeDecodeError, encoding: Encoding) -> InputError:
    """The error for a byte that is invalid in the encoding, after the part it was detected from."""
    what = f"{name}, line {line}: byte 0x{error.object[error.start]:02x} is not {encoding.name}"
    return InputError(f"{what}. {'Give another encoding' if encoding.asked else SETTLE}, or repair the line")
