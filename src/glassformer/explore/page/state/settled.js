// Whether the page is settled: it has asked for everything and drawn all of it. `aria-busy` of <main> says so, to
// assistive technology and to the tests.

let pending = 0; // answers and pauses
let changes = 0;
let isWatching = false;

const main = () => /** @type {HTMLElement} */ (document.querySelector("main"));

// Something changed: the page is busy until two frames pass without another change. Observers of sizes, which run
// after a layout, have drawn by then.
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

// The page is busy until this promise is kept or broken.
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
