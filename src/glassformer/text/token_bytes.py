"""The bytes that a byte-level vocabulary spells its tokens with, and how they are shown.

A token may be a part of a character, as of Hangul or an emoji. Bytes that are no character by themselves are written
as <EC>.
"""


def byte_alphabet() -> dict[str, int]:
    """The character that GPT-2's vocabularies write each byte with (Radford et al., 2019): printable ones as they are,
    the others from 256 on, in their order."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTES = byte_alphabet()


def readable_token(token: str) -> str:
    """A token as a byte-level vocabulary spells it, as text; one that is not spelled so stays as it is."""
    if all(letter in BYTES for letter in token):
        return readable_bytes(bytes(BYTES[letter] for letter in token))
    return token


def readable_bytes(content: bytes) -> str:
    """UTF-8 where it is, and <EC> for each byte that is not."""
    written, at = "", 0
    while at < len(content):
        for length in (1, 2, 3, 4):
            try:
                written += content[at : at + length].decode()
            except UnicodeDecodeError:
                continue
            at += min(length, len(content) - at)
            break
        else:
            written += f"<{content[at]:02X}>"
            at += 1
    return written
