"""The verb `verify`: checks that a model computes what it should, and writes a certificate."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from tyro.conf import Positional

from glassformer.errors import InputError
from glassformer.settings import Settings
from glassformer.terminal import make_console

if TYPE_CHECKING:
    from glassformer.checkpoints.verify import Certificate, Check

RESULT_STYLES = {"passed": "green", "differs": "bold red", "-": "dim"}


@dataclass(frozen=True, kw_only=True)
class VerifySettings(Settings):
    """Check that a model computes the right results on this machine: against itself, against the logits stored when it
    was saved, and against transformers if that is installed. Exit code 0 if nothing differs, 1 if something does."""

    model: Positional[str]
    """The run or model folder, or a hub id owner/name."""
    out: Path | None = None
    """File for the certificate (default: certificate.json in the model folder)."""
    revision: str | None = None
    """Branch, tag or commit of a hub model (default: the newest)."""
    json: bool = False
    """Print the certificate as JSON instead of a table."""


def main(settings: VerifySettings) -> None:
    """Exits with code 1 if a check differs."""
    from glassformer.checkpoints.verify import verify

    if settings.out is not None and (settings.out.is_dir() or not settings.out.parent.is_dir()):
        raise InputError(f"--out {settings.out}: expected a file to write, in a folder that exists")
    certificate = verify(settings.model, revision=settings.revision)
    where = write_certificate(certificate, settings)
    if settings.json:
        print(json.dumps(certificate.to_dict(), ensure_ascii=False))
    else:
        show_checks(certificate)
        make_console().print(f"\n{verdict(certificate)}" + (f" The certificate is {where}" if where else ""))
    if not certificate.passed:
        sys.exit(1)


def write_certificate(certificate: "Certificate", settings: VerifySettings) -> Path | None:
    """Writes the certificate next to the weights, or to --out. A folder that is not writable is not a failed check."""
    from glassformer.checkpoints.golden import CERTIFICATE
    from glassformer.io import write_json

    folder = Path(settings.model)
    if settings.out is None and not folder.is_dir():
        return None  # a hub model: its cached copy is not ours to change
    file = settings.out or folder / CERTIFICATE
    try:
        write_json(file, certificate.to_dict())
    except OSError as error:
        print(f"the certificate could not be written to {file}: {error.strerror}. Try --out FILE", file=sys.stderr)
        return None
    return file


def show_checks(certificate: "Certificate") -> None:
    table = Table("check", "verdict", "difference", "tolerance", "", box=None, pad_edge=False)
    for column in table.columns[2:4]:
        column.justify = "right"
    for check in certificate.checks:
        numbers = (number(check.difference), number(check.tolerance))
        table.add_row(check.name, check.verdict, *numbers, check.note, style=RESULT_STYLES[check.verdict])
    console = make_console()
    versions = ", ".join(f"{name} {version}" for name, version in certificate.versions.items())
    console.print(f"{certificate.path}: {certificate.model_type}, head {certificate.head}, {certificate.dtype}")
    console.print(f"with {versions}\n")
    console.print(table)


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}" if value else "0"


def verdict(certificate: "Certificate") -> str:
    def named(checks: "list[Check]") -> str:
        return ", ".join(check.name for check in checks)

    differing = [check for check in certificate.checks if check.verdict == "differs"]
    passed = [check for check in certificate.checks if check.verdict == "passed"]
    if differing:
        return f"{len(differing)} of {len(differing) + len(passed)} checks differ: {named(differing)}."
    return f"All {len(passed)} checks that apply passed."
