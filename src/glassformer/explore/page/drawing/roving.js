// One stop of the Tab key for a whole group; arrows move inside it (the "roving tabindex" of the ARIA practices).

// The Tab key stops at the chosen item, or at the first.
export function rove(items, chosen) {
  const stop = items.includes(chosen) ? chosen : items[0];
  for (const one of items) {
    const order = one === stop ? 0 : -1;
    if (one.tabIndex !== order) one.tabIndex = order;
  }
}

// `next` gives the item that an arrow leads to: at the end of a line the same one, and nothing for what is no item.
// `act` is what arriving there does.
/** @param {(item: any) => void} act */
export function listenToArrows(root, next, act = () => {}) {
  root.addEventListener("keydown", (event) => {
    const isPlain = !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey;
    const found = isPlain && event.key.startsWith("Arrow") ? next(event.target, event.key) : null;
    if (!found) return;
    event.preventDefault();
    event.stopPropagation(); // the page's own arrows do not move as well
    found.focus();
    act(found);
  });
}

// Left and right among the items of a line, which say their place as data-index.
export function alongLine(items) {
  return (from, key) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (!by || from.dataset.index === undefined) return null;
    return items(from).find((one) => Number(one.dataset.index) === Number(from.dataset.index) + by) ?? from;
  };
}
