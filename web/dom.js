// Elements without innerHTML: text stays text.

export const byId = (id) => document.getElementById(id);

/** An element. Properties: on… are listeners, data an object of data-…, class and all else attributes; null and false are left out. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(made.dataset, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export const icon = (name) => svg("svg", { "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));

export const iconButton = (name, label, onclick, properties = {}) =>
  element("button", { type: "button", class: "icon small", "aria-label": label, title: label, onclick, ...properties }, icon(name));

/** Sets text only where it differs, so that nothing is laid out again for the same. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function announce(text) {
  byId("announcer").textContent = text;
}

/** A message that goes by itself; with an action it stays a little longer. */
export function toast(text, action) {
  const note = element("div", { class: "toast" }, element("span", {}, text));
  if (action) {
    note.append(element("button", { type: "button", class: "link", onclick: () => { note.remove(); action.run(); } }, action.label));
  }
  byId("toasts").append(note);
  setTimeout(() => note.remove(), action ? 8000 : 4000);
}

/** Copies, and shows for a moment on the button that it has. */
export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages that came over plain HTTP from another machine have no clipboard API.
    const area = element("textarea", { class: "hidden", "aria-hidden": "true" });
    area.value = text;
    (button.closest("dialog") ?? document.body).append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    button.focus();
    if (!copied) {
      toast("The browser does not let this page copy.");
      return;
    }
  }
  announce("Copied");
  const before = [...button.childNodes];
  if (button.dataset.done) return;
  button.dataset.done = "true";
  button.replaceChildren(icon("check"), ...(button.querySelector("span") ? [element("span", {}, "Copied")] : []));
  setTimeout(() => { button.replaceChildren(...before); delete button.dataset.done; }, 1600);
}
