// Whether the page is settled: everything is loaded and drawn. `aria-busy` of <main> tells assistive technology and the
// tests.

let pending = 0; // answers and pauses
let changes = 0;
let isWatching = false;

const main = () => /** @type {HTMLElement} */ (document.querySelector("main"));

// Something changed: the page is busy until two frames pass without another change. By then, resize observers, which
// run after layout, have drawn.
export function stir() {
  changes += 1;
  if (main().getAttribute("aria-busy") !== "true") main().setAttribute("aria-busy", "true");
  if (!isWatching) watch();
}

async function watch() {
  isWatching = true;
  let seen = -1;
  while (seen !== changes && pending === 0) {
    seen = changes;
    await frame();
    await frame();
  }
  isWatching = false;
  if (pending === 0) main().setAttribute("aria-busy", "false");
}

const frame = () => new Promise((done) => requestAnimationFrame(done));

// The page is busy until this promise settles.
export function during(promise) {
  const end = () => {
    pending -= 1;
    stir();
  };
  pending += 1;
  stir();
  promise.then(end, end);
  return promise;
}

export const pause = (milliseconds) => during(new Promise((done) => setTimeout(done, milliseconds)));
