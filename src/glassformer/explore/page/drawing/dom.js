// Creates elements and formats numbers. Anything from a user or a model is inserted as text, never as markup.

/**
 * An element with attributes, listeners and children.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...any} children
 * @returns {any}
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") {
      for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    } else if (key === "text") {
      element.textContent = value;
    } else {
      element.setAttribute(key, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * A part of index.html.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

// Replaces the children and keeps the keyboard focus on the same control, or on its replacement.
export function refill(root, ...children) {
  const active = document.activeElement;
  const place = active !== root && root.contains(active) ? controls(root).indexOf(active) : -1;
  root.replaceChildren(...children);
  if (place < 0) return;
  const all = controls(root);
  const same = root.contains(active) ? active : all[Math.min(place, all.length - 1)];
  const near = same?.disabled ? same.parentElement.querySelector("button:not(:disabled)") : same;
  near?.focus({ preventScroll: true });
}

const controls = (root) => [...root.querySelectorAll("button, input, select, textarea, summary")];

export function button(text, act, properties = {}) {
  return make("button", { type: "button", text, on: { click: act }, ...properties });
}

// Formats a weight or an activation: three significant digits, and a real minus sign.
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  const text = size >= 1000 ? size.toFixed(0) : size >= 0.001 ? size.toPrecision(3) : size.toExponential(1);
  return (value < 0 ? "−" : "") + text;
}

export function percent(value) {
  const size = 100 * value;
  if (size > 0 && size < 0.01) return "< 0.01 %";
  return `${size >= 9.95 || size === 0 ? size.toFixed(0) : size >= 0.095 ? size.toFixed(1) : size.toPrecision(1)} %`;
}

// 5212345 -> "5.2 M"
export function short(value) {
  for (const [letter, size] of Object.entries({ T: 1e12, G: 1e9, M: 1e6, k: 1e3 })) {
    if (value >= size) return `${(value / size).toFixed(value >= 100 * size ? 0 : 1)} ${letter}`;
  }
  return String(value);
}

// Sizes a canvas for the screen's pixel density; drawing uses CSS pixels.
export function sizeCanvas(canvas, width, height) {
  const density = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * density));
  canvas.height = Math.max(1, Math.round(height * density));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  return context;
}

// A colour of the style sheet, for drawing on a canvas.
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function prefersStillness() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}
