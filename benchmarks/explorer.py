"""The explorer in a browser: how fast the page opens and responds to a hover, with 16 and with 2,048 tokens.

    python benchmarks/explorer.py
    python benchmarks/explorer.py --picture runs/demo    # instead: writes docs/images/explorer.png from this run

A decoder of GPT-2's size with random weights is served on this machine and opened in headless Chromium. The browser
itself reports the first paint of a fresh page. A hover is timed inside the page: from the pointer event to the first
frame with the row highlighted, and to the first frame with its exact numbers, which come from the server. All figures
are medians.
"""

import shutil
import statistics
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import torch
from playwright.sync_api import sync_playwright
from readme import ROOT, write_table

import glassformer as gf
from glassformer.explore.view.pair import PairSession
from glassformer.explore.view.session import Session
from glassformer.serve.server import Server
from glassformer.verbs.demo import EXAMPLE_DATE

LENGTHS = (16, 2048)
VISITS, HOVERS = 5, 21
TEXT = "The quick brown fox jumps over the lazy dog, and a small model looks on. "
PATIENCE = 60_000  # milliseconds

HOVER = """async ([across, down]) => {
  const [map, overlay] = [document.querySelector(".map"), document.querySelector(".overlay")];
  const box = overlay.getBoundingClientRect();
  const before = `${map.dataset.row} ${map.dataset.column}`;
  const place = { clientX: box.left + across * box.width, clientY: box.top + down * box.height, bubbles: true };
  const began = performance.now();
  overlay.dispatchEvent(new PointerEvent("pointermove", place));
  const until = (holds) => new Promise((done) => {
    const look = () => (holds() ? done(performance.now() - began) : requestAnimationFrame(look));
    requestAnimationFrame(look);
  });
  const lit = await until(() => `${map.dataset.row} ${map.dataset.column}` !== before);
  const exact = await until(() => document.querySelector(".numbers").dataset.exact === "yes");
  return [lit, exact];
}"""


def make_model(folder: Path) -> Path:
    torch.manual_seed(0)
    tokenizer = gf.train_tokenizer([TEXT], 300, "bytes")
    stack = gf.StackConfig(d_model=768, num_layers=12, num_heads=12, max_len=4096, positions="learned")
    config = gf.TransformerConfig(decoder=stack, vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id)
    gf.save(gf.Transformer(config).eval(), folder, tokenizer=tokenizer)
    return folder


def text_of(session: Session | PairSession, length: int) -> str:
    tokenizer = session.preparer.tokenizer  # type: ignore[union-attr]
    return str(tokenizer.decode(tokenizer.encode([TEXT * length]).input_ids[0, :length].tolist()))


def measure(browser: Any, server: Server, length: int) -> list[float]:
    """Milliseconds to the first paint, from input to map, and from hover to highlight and to exact numbers."""
    text = text_of(server.session, length)
    shown = server.session.view({"text": text}).shown  # computed beforehand: the page is timed, not the model
    count = len(shown["lines"]["decoder"]["tokens"])
    paints, wholes, lits, exacts = [], [], [], []
    for _ in range(VISITS):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(PATIENCE)
        page.goto(server.address)
        page.fill("textarea", text)
        page.wait_for_selector(".numbers[data-exact=yes]")
        paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        began = page.evaluate("performance.now()")
        page.click("#asking [type=submit]")
        page.wait_for_selector(f'.map[data-rows="{count}"]')
        page.wait_for_selector(".numbers[data-exact=yes]")
        wholes.append(page.evaluate("performance.now()") - began)
        for i in range(HOVERS // VISITS + 1):
            lit, exact = page.evaluate(HOVER, [0.3 + 0.1 * (i % 2), 0.6 + 0.07 * i])  # a different cell each time
            lits.append(lit)
            exacts.append(exact)
        page.close()
    return [statistics.median(times) for times in (paints, wholes, lits, exacts)]


def take_picture(browser: Any, server: Server, file: Path) -> None:
    """Writes a screenshot of the page as it opens, with the example of the README."""
    from PIL import Image

    page = browser.new_page(viewport={"width": 1280, "height": 1290}, reduced_motion="reduce")
    page.goto(f"{server.address}#{urlencode({'text': EXAMPLE_DATE, 'lang': 'en', 'theme': 'light'})}")
    page.wait_for_selector("main[aria-busy=false]", timeout=PATIENCE)
    page.screenshot(path=file)
    page.close()
    with Image.open(file) as picture:  # 256 colours: a third of the file size, and no colour changes much
        few = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
    few.save(file, optimize=True)


def main() -> None:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        sys.exit("chromium is not installed. On Debian: apt install chromium")
    run = Path(sys.argv[sys.argv.index("--picture") + 1]) if "--picture" in sys.argv else None
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        server = Server(Session(run or make_model(Path(folder) / "gpt2-size")), 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        rows = []
        if run is not None:
            take_picture(browser, server, ROOT / "docs" / "images" / "explorer.png")
        for length in LENGTHS if run is None else ():
            times = measure(browser, server, length)
            rows.append([f"{length:,} tokens", *(f"{milliseconds:.0f} ms" for milliseconds in times)])
        browser.close()
        server.shutdown()
        server.server_close()
    if run is not None:
        return
    columns = ["first paint", "input to map", "hover to highlight", "hover to numbers"]
    write_table("explorer", ["the explorer, 12 layers, 12 heads", *columns], rows)
    print("targets: first paint under 1,000 ms, hover under 100 ms")


if __name__ == "__main__":
    main()
