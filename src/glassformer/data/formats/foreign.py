"""Refuses files that are neither text nor a supported table, and says what to do."""

from pathlib import Path

from glassformer.errors import InputError

SAVE_TABLE = "Save it as .xlsx or .csv"
SAVE_TEXT = "Save it as plain text (.txt)"
UNPACK = "Unpack it first"
FOREIGN_SUFFIXES = {
    ".xls": ("an old Excel workbook", f"{SAVE_TABLE}: in Excel, File > Save As"),
    ".xlsb": ("a binary Excel workbook", f"{SAVE_TABLE}: in Excel, File > Save As"),
    ".ods": ("a LibreOffice spreadsheet", f"{SAVE_TABLE}: in LibreOffice, File > Save As"),
    ".numbers": ("a Numbers spreadsheet", "Export it as CSV: in Numbers, File > Export To > CSV"),
    ".doc": ("a Word document", f"{SAVE_TEXT}: in Word, File > Save As"),
    ".docx": ("a Word document", f"{SAVE_TEXT}: in Word, File > Save As"),
    ".odt": ("a LibreOffice document", f"{SAVE_TEXT}: in LibreOffice, File > Save As"),
    ".rtf": ("a document with formatting", SAVE_TEXT),
    ".hwp": ("a Hangul document", SAVE_TEXT),
    ".hwpx": ("a Hangul document", SAVE_TEXT),
    ".pages": ("a Pages document", f"{SAVE_TEXT}: in Pages, File > Export To > Plain Text"),
    ".pdf": ("a PDF", "Extract its text first, for instance with `pdftotext`"),
    ".zip": ("a zip archive", UNPACK),
    ".7z": ("an archive", UNPACK),
    ".rar": ("an archive", UNPACK),
    ".tar": ("an archive", UNPACK),
    ".tgz": ("an archive", UNPACK),
    ".bz2": ("packed with bzip2", f"{UNPACK}, or pack it with gzip (.gz)"),
    ".xz": ("packed with xz", f"{UNPACK}, or pack it with gzip (.gz)"),
    ".zst": ("packed with zstd", f"{UNPACK}, or pack it with gzip (.gz)"),
    ".pkl": ("a Python pickle", "Save it as .csv or .parquet, for instance with pandas"),
    ".pickle": ("a Python pickle", "Save it as .csv or .parquet, for instance with pandas"),
    ".feather": ("a Feather table", "Save it as .parquet"),
    ".arrow": ("an Arrow table", "Save it as .parquet"),
    ".sqlite": ("a database", "Export the table as .csv"),
    ".db": ("a database", "Export the table as .csv"),
}
BEGINNINGS = {
    b"PK\x03\x04": ("a zip archive, like .xlsx and .docx files", "Give it the right extension, or save it as .csv"),
    b"\xd0\xcf\x11\xe0": ("an old Office file, like .xls and .doc files", "Save it as .xlsx, .csv or plain text"),
    b"%PDF": FOREIGN_SUFFIXES[".pdf"],
    b"PAR1": ("a Parquet table", "Rename it to end in .parquet"),
    b"\x1f\x8b": ("packed with gzip", "Rename it to end in .gz"),
    b"SQLite format 3": FOREIGN_SUFFIXES[".db"],
    b"\x89PNG": ("an image", "Expected text"),
    b"\xff\xd8\xff": ("an image", "Expected text"),
}


def check_ending(path: Path) -> None:
    """Refuses a file by its name."""
    if path.name.lower().endswith(".tar.gz"):
        raise InputError(f"{path} is an archive. {UNPACK}")
    for name in (path.name.lower(), path.name.lower().removesuffix(".gz")):
        if known := FOREIGN_SUFFIXES.get(Path(name).suffix):
            raise InputError(f"{path} is {known[0]}. {known[1]}")


def check_beginning(path: Path, head: bytes) -> None:
    """Refuses a file by its first bytes, whatever its name."""
    for beginning, (what, way_out) in BEGINNINGS.items():
        if head.startswith(beginning):
            raise InputError(f"{path} is {what}. {way_out}")
