// Making and changing elements. Whatever comes from outside is set as text or as an attribute, never as markup.

export const find = (id) => document.getElementById(id);

/** An element with its attributes, listeners (`onclick`) and children. */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null));
  return node;
}

/** The same in a drawing. */
export function draw(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Sets the text of an element, where it is another one. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets an attribute, where it is another one; `null` takes it away. */
export function mark(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** Brings the children of `parent` in line with `items`: kept by key, made where they are new, in this order. */
export function sync(parent, items, keyOf, create, update) {
  const known = parent.known ?? (parent.known = new Map());
  const wanted = new Set(items.map(keyOf));
  for (const [key, part] of known) {
    if (wanted.has(key)) continue;
    part.node.remove();
    known.delete(key);
  }
  let before = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let part = known.get(key);
    if (!part) {
      part = create(item);
      known.set(key, part);
    }
    if (part.node === before) before = before.nextElementSibling;
    else parent.insertBefore(part.node, before);
    update(part, item);
  }
}

/** Fills a list of names and what is said of each: name, text, and how it is where it is out of the ordinary. */
export function rows(list, items) {
  const create = ([name]) => {
    const value = make("dd");
    return { value, node: make("div", {}, make("dt", {}, name), value) };
  };
  const update = (part, [, text, is]) => {
    say(part.value, text);
    mark(part.value, "data-is", is ?? null);
  };
  sync(list, items, ([name]) => name, create, update);
}

/** One sentence for those who do not see the page. */
export function announce(text) {
  say(find("announce"), text);
}
