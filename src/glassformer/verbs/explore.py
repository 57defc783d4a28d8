"""The verb `explore`: opens a model in the browser, or writes the page as one file."""

import errno
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from glassformer.errors import InputError
from glassformer.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ExploreSettings(Settings):
    """Open a model in the browser and see what it does with your input, layer by layer and head by head. With --export,
    write the page as one HTML file that works offline."""

    run: Positional[str]
    """The run or model folder, or a hub id owner/name."""
    port: int = 8642
    """Port of the page, which only this machine can open; 0 picks a free port."""
    export: Path | None = None
    """Write the page to this .html file, with the data of one input, instead of serving it."""
    text: str | None = None
    """With --export: the input (default: the first example)."""
    open: bool = False
    """Open the page in the browser."""
    source_language: str | None = None
    """Language code of the input, for a multilingual model, such as en_XX."""
    target_language: str | None = None
    """Language code to translate into, for a multilingual model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.port < 2**16:
            raise self._refuse("port", "expected a number from 0 to 65535")
        if self.text is not None and self.export is None:
            raise self._refuse(
                "text", "it only works with --export. Add --export page.html, or type the text on the page"
            )


def main(settings: ExploreSettings) -> None:
    from glassformer.explore.export.destination import check_destination
    from glassformer.explore.export.export import write_export
    from glassformer.explore.view.pair import open_session
    from glassformer.explore.view.routes import Routes
    from glassformer.serve.server import LOOPBACK, Server

    if settings.export is not None:
        check_destination(settings.export)  # before the model is loaded, which may take long
    session = open_session(
        settings.run, source_language=settings.source_language, target_language=settings.target_language
    )
    if settings.export is not None:
        write_export(session, Routes(session), settings.text, settings.export)
        size = settings.export.stat().st_size / 1e6
        print(f"Saved to {settings.export} ({size:.1f} MB). It opens in any browser, even offline")
        return
    try:
        server = Server(session, settings.port)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        reason = "in use" if error.errno == errno.EADDRINUSE else "not permitted"
        raise InputError(f"port {settings.port} on {LOOPBACK} is {reason}: choose another with --port") from None
    print(f"{session.folder} is open at {server.address}  (Ctrl-C to stop)", flush=True)
    if settings.open:
        webbrowser.open(server.address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
    finally:
        server.server_close()
