"""`glassformer explore RUN`: the explorer in the browser, or as one file."""

import errno
import sys
import webbrowser

from glassformer.errors import InputError
from glassformer.serve.destination import check_destination
from glassformer.serve.export import write_export
from glassformer.serve.routes import Routes
from glassformer.serve.server import LOOPBACK, Server
from glassformer.serve.session import Session
from glassformer.settings import ExploreSettings


def explore(settings: ExploreSettings) -> None:
    if settings.export is not None:
        check_destination(settings.export)  # before a model is loaded for nothing
    session = Session(settings.run, source_language=settings.source_language, target_language=settings.target_language)
    if settings.export is not None:
        write_export(session, Routes(session), settings.text, settings.export)
        size = settings.export.stat().st_size / 1e6
        print(f"{settings.export} ({size:.1f} MB) opens in any browser, with no network")
        return
    try:
        server = Server(session, settings.port)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        reason = "in use" if error.errno == errno.EADDRINUSE else "not open to you"
        raise InputError(f"port {settings.port} on {LOOPBACK} is {reason}: choose another with --port") from None
    print(f"{session.folder} is open at {server.address}  (Ctrl-C ends it)", flush=True)
    if settings.open:
        webbrowser.open(server.address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("\nended", file=sys.stderr)
    finally:
        server.server_close()
