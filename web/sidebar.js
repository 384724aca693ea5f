// The list of chats: search, open, rename, delete.

import { byId, element, iconButton } from "./dom.js";

const DAY = 86_400_000;

function groupOf(time) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (time >= midnight) return "Today";
  if (time >= midnight - DAY) return "Yesterday";
  if (time >= midnight - 7 * DAY) return "Last 7 days";
  return "Earlier";
}

const contains = (chat, words) => {
  const text = [chat.title, ...Object.values(chat.nodes).map((node) => node.content)].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
};

export class Sidebar {
  /** `chats()` are all, newest first; `current()` the id of the shown one; `running(id)` whether an answer is on its way. */
  constructor({ chats, current, running, rename, remove }) {
    Object.assign(this, { chats, current, running, rename, remove });
    this.list = byId("chats");
    this.search = byId("search");
    this.search.addEventListener("input", () => this.render());
  }

  render() {
    if (this.renaming) return;
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.chats().filter((chat) => !words.length || contains(chat, words));
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
    const groups = Map.groupBy ? Map.groupBy(found, (chat) => groupOf(chat.updated)) : new Map([["Chats", found]]);
    this.list.replaceChildren(...[...groups].map(([name, chats]) =>
      element("section", { "aria-label": name }, element("h2", {}, name), element("ul", {}, chats.map((chat) => this.entry(chat))))));
    if (!found.length) this.list.append(element("p", { class: "none" }, words.length ? "No chat has these words." : "Chats are kept in this browser."));
    if (focused) [...this.list.querySelectorAll("[data-focus]")].find((each) => each.dataset.focus === focused)?.focus();
  }

  entry(chat) {
    const current = chat.id === this.current();
    const link = element("a", { href: `#/chat/${chat.id}`, "aria-current": current ? "page" : null, data: { focus: `open ${chat.id}` } },
      this.running(chat.id) ? element("i", { class: "live", role: "img", "aria-label": "Answering" }) : null, chat.title);
    const item = element("li", { class: current ? "current" : null }, link,
      iconButton("edit", `Rename ${chat.title}`, () => this.askName(chat, item), { data: { focus: `rename ${chat.id}` } }),
      iconButton("trash", `Delete ${chat.title}`, () => this.remove(chat), { data: { focus: `delete ${chat.id}` } }));
    return item;
  }

  askName(chat, item) {
    const field = element("input", { "aria-label": "New name", maxlength: "200" });
    field.value = chat.title;
    this.renaming = true;
    const end = (keep) => {
      if (!this.renaming) return;
      this.renaming = false;
      if (keep && field.value.trim()) this.rename(chat, field.value.trim());
      this.render();
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) end(true);
      if (event.key === "Escape") { event.stopPropagation(); end(false); }
    });
    field.addEventListener("blur", () => end(true));
    item.replaceChildren(field);
    field.select();
  }
}
