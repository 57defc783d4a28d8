"""The verbs `verify` and `convert`."""

import json
import sys
from pathlib import Path

from rich.table import Table

from glassformer.checkpoints.convert import convert
from glassformer.checkpoints.folder import write_json
from glassformer.checkpoints.golden import CERTIFICATE
from glassformer.checkpoints.verify import Certificate, Check, verify
from glassformer.errors import InputError
from glassformer.settings import ConvertSettings, VerifySettings
from glassformer.terminal import make_console

STYLES = {"passed": "green", "differs": "bold red", "-": "dim"}


def verify_command(settings: VerifySettings) -> None:
    """Ends with exit code 1 if something differs."""
    if settings.out is not None and (settings.out.is_dir() or not settings.out.parent.is_dir()):
        raise InputError(f"--out {settings.out}: expected a file to write, in a folder that exists")
    certificate = verify(settings.model, revision=settings.revision)
    where = write_certificate(certificate, settings)
    if settings.json:
        print(json.dumps(certificate.to_dict(), ensure_ascii=False))
    else:
        show(certificate)
        make_console().print(f"\n{verdict(certificate)}" + (f" The certificate is {where}" if where else ""))
    if not certificate.passed:
        sys.exit(1)


def write_certificate(certificate: Certificate, settings: VerifySettings) -> Path | None:
    """Beside the weights, unless told where; a folder that may not be written changes no verdict."""
    folder = Path(settings.model)
    if settings.out is None and not folder.is_dir():
        return None  # of a hub id, whose copy on this machine is not ours to add to
    file = settings.out or folder / CERTIFICATE
    try:
        write_json(file, certificate.to_dict())
    except OSError as error:
        print(f"the certificate could not be written to {file}: {error.strerror}; try --out FILE", file=sys.stderr)
        return None
    return file


def show(certificate: Certificate) -> None:
    table = Table("check", "verdict", "difference", "tolerance", "", box=None, pad_edge=False)
    for column in table.columns[2:4]:
        column.justify = "right"
    for check in certificate.checks:
        numbers = (number(check.difference), number(check.tolerance))
        table.add_row(check.name, check.verdict, *numbers, check.note, style=STYLES[check.verdict])
    console = make_console()
    versions = ", ".join(f"{name} {version}" for name, version in certificate.versions.items())
    console.print(f"{certificate.path}: {certificate.model_type}, head {certificate.head}, {certificate.dtype}")
    console.print(f"with {versions}\n")
    console.print(table)


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}" if value else "0"


def verdict(certificate: Certificate) -> str:
    def named(checks: list[Check]) -> str:
        return ", ".join(check.name for check in checks)

    differing = [check for check in certificate.checks if check.verdict == "differs"]
    passed = [check for check in certificate.checks if check.verdict == "passed"]
    if differing:
        return f"{len(differing)} of {len(differing) + len(passed)} differ: {named(differing)}."
    return f"All {len(passed)} that apply passed."


def convert_command(settings: ConvertSettings) -> None:
    done = convert(
        settings.source,
        settings.target,
        dtype=settings.dtype,
        max_shard_size=settings.max_shard_size,
        overwrite=settings.overwrite,
        revision=settings.revision,
    )
    if settings.json:
        print(json.dumps(done.to_dict(), ensure_ascii=False))
        return
    console = make_console()
    console.print(f"{done.source}: {done.model_type}, head {done.head}, {done.parameters:,} parameters")
    console.print(
        f"written to {done.target} in {done.dtype}, {'with its' if done.tokenizer else 'without a'} tokenizer:"
    )
    for name, size in done.files.items():
        console.print(f"  {name}  {size:,} bytes")
