// One stop of the Tab key for a whole group; arrows move inside it (the "roving tabindex" of the ARIA practices).

// The Tab key stops at the chosen item, or at the first.
export function rove(items, chosen) {
  const stop = items.includes(chosen) ? chosen : items[0];
  for (const one of items) {
    const order = one === stop ? 0 : -1;
    if (one.tabIndex !== order) one.tabIndex = order;
  }
}

// `next` returns the item that an arrow key leads to: the same item at the end of a line, null if the element is not an
// item. `act` is called on the new item.
/** @param {(item: any) => void} act */
export function listenToArrows(root, next, act = () => {}) {
  root.addEventListener("keydown", (event) => {
    const isPlain = !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey;
    const found = isPlain && event.key.startsWith("Arrow") ? next(event.target, event.key) : null;
    if (!found) return;
    event.preventDefault();
    event.stopPropagation(); // so that the page's own arrow keys do not act too
    found.focus();
    act(found);
  });
}

// Left and right between the items of a line, by their data-index.
export function alongLine(items) {
  return (from, key) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (!by || from.dataset.index === undefined) return null;
    return items(from).find((one) => Number(one.dataset.index) === Number(from.dataset.index) + by) ?? from;
  };
}
