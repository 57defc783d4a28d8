"""The byte alphabet of byte-level vocabularies, and how bytes are shown.

A token may be part of a character, such as a Hangul syllable or an emoji. Bytes that are not a whole character are
written as <EC>.
"""


def byte_alphabet() -> dict[str, int]:
    """The character for each byte in GPT-2's vocabularies (Radford et al., 2019): printable ones as they are, the
    others from 256 on, in order."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTE_ALPHABET = byte_alphabet()


def readable_token(token: str) -> str:
    """The text of a token of a byte-level vocabulary; a token in another spelling stays as it is."""
    if all(letter in BYTE_ALPHABET for letter in token):
        return readable_bytes(bytes(BYTE_ALPHABET[letter] for letter in token))
    return token


def readable_bytes(content: bytes) -> str:
    """Decodes UTF-8, and writes <EC> for each byte that is not valid."""
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
