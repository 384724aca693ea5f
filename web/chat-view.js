// The chat that is shown: its messages, the field for the next one, and answers on their way, also of other chats.

import { announce, byId, element, toast } from "./dom.js";
import { addNode, pathOf, removeNode, selectNode } from "./conversation.js";
import { generate } from "./generation.js";
import { MessageView } from "./message-view.js";

const NEAR = 48; // pixels from the end within which the view follows the answer
const KEEP_EVERY = 3000; // milliseconds

export class ChatView {
  /** `save(chat)` keeps a chat; `model()` is the name to ask for; `changed()` tells that titles or states have. */
  constructor({ save, model, changed }) {
    Object.assign(this, { save, model, changed });
    this.views = new Map();
    this.running = new Map(); // chat id: {chat, node, controller}
    this.drafts = new Map();
    this.pausedBy = "";
    this.scroller = byId("scroller");
    this.list = byId("messages");
    this.field = byId("composer");
    this.button = byId("send");
    this.follow = true;
    this.scroller.addEventListener("scroll", () => this.onScroll(), { passive: true });
    new ResizeObserver(() => this.keepUp()).observe(this.list);
    byId("latest").addEventListener("click", () => this.toEnd());
    byId("composer-form").addEventListener("submit", (event) => { event.preventDefault(); this.sendOrStop(); });
    this.field.addEventListener("keydown", (event) => this.onKey(event));
    this.field.addEventListener("input", () => this.updateButton());
    setInterval(() => this.tick(), 500);
  }

  show(chat) {
    if (this.chat) this.drafts.set(this.chat.id, this.field.value);
    this.chat = chat;
    this.views.clear();
    this.list.replaceChildren();
    this.field.value = this.drafts.get(chat.id) ?? "";
    this.follow = true;
    this.render();
    this.toEnd();
  }

  /** The chat that is shown, as another window has left it: where the reader is, and what is being written, stays. */
  renew(chat) {
    const { follow } = this, { scrollTop } = this.scroller, focused = document.activeElement;
    this.chat = chat;
    for (const [id, view] of this.views) {
      if (view.writing && chat.nodes[id]) Object.assign(view, { chat, node: chat.nodes[id], actions: this.actions() });
      else this.views.delete(id);
    }
    this.render();
    if (this.list.contains(focused)) focused.focus({ preventScroll: true });
    this.follow = follow;
    if (!follow) this.scroller.scrollTop = scrollTop;
    this.keepUp();
  }

  /** The elements of the selected branch; what is there already stays. */
  render() {
    const path = pathOf(this.chat);
    const shown = path.map((node) => {
      let view = this.views.get(node.id);
      if (!view) this.views.set(node.id, view = new MessageView(this.chat, node, this.actions()));
      view.update(this.pausedBy);
      return view.root;
    });
    if (!path.length) shown.push(this.welcome());
    this.list.classList.toggle("empty", !path.length);
    if (shown.length !== this.list.children.length || shown.some((root, index) => this.list.children[index] !== root)) this.list.replaceChildren(...shown);
    this.updateButton();
  }

  welcome() {
    const ideas = ["Write a function that checks whether a number is prime.", "Explain what a binary search does.", "Write a class for a stack with push and pop.",
      "Write a function to reverse a string."];
    return element("div", { class: "welcome" },
      element("h1", {}, "What shall we build?"),
      element("p", {}, "Every node of the cluster works on the answer. ", element("a", { href: "#/cluster" }, "Watch them"), "."),
      element("div", { class: "ideas" }, ideas.map((idea) => element("button", { type: "button", onclick: () => this.send(idea) }, idea))));
  }

  actions() {
    const { chat } = this;
    return {
      retry: (node) => this.answer(chat, chat.nodes[node.parent]),
      edit: (node, content) => this.answer(chat, addNode(chat, chat.nodes[node.parent], { role: "user", content })),
      select: (node) => { selectNode(chat, node); this.render(); this.save(chat); },
      remove: (node) => this.remove(chat, node),
      answerTool: (node, call, content) => this.answerTool(chat, node, call, content),
    };
  }

  remove(chat, node) {
    const running = this.running.get(chat.id);
    if (running) running.controller.abort();
    const restore = removeNode(chat, node);
    this.refresh(chat);
    this.save(chat);
    this.field.focus();
    toast("Message deleted.", { label: "Undo", run: () => { restore(); this.refresh(chat); this.save(chat); } });
  }

  refresh(chat) {
    if (chat === this.chat) this.render();
    this.changed();
  }

  /** The results of all calls of an answer come behind it, and then the next answer. */
  answerTool(chat, node, call, content) {
    const path = pathOf(chat);
    const last = path.slice(path.indexOf(node) + 1).findLast((each) => each.role === "tool") ?? node;
    const result = addNode(chat, last, { role: "tool", toolCallId: call.id, content });
    const missing = node.toolCalls.some(({ id }) => !Object.values(chat.nodes).some((other) => other.toolCallId === id));
    if (missing) {
      this.refresh(chat);
      this.save(chat);
    } else {
      this.answer(chat, result);
    }
  }

  send(text) {
    const { chat } = this;
    if (!text.trim() || this.running.has(chat.id)) return;
    const last = pathOf(chat).at(-1);
    this.field.value = "";
    this.drafts.delete(chat.id);
    this.follow = true;
    this.answer(chat, addNode(chat, last, { role: "user", content: text }));
  }

  /** Asks for an answer to `parent`, as a new branch if there is one already. */
  async answer(chat, parent) {
    this.running.get(chat.id)?.controller.abort();
    const node = addNode(chat, parent, { role: "assistant", state: "waiting" });
    const controller = new AbortController(), mine = { chat, node, controller };
    this.running.set(chat.id, mine);
    this.refresh(chat);
    if (chat === this.chat) this.toEnd();
    this.save(chat);
    announce("Waiting for the answer");
    let asked = 0;
    await generate(chat, node, this.model(), controller.signal, () => { asked ||= this.schedule(chat, node, () => { asked = 0; }); });
    if (this.running.get(chat.id) === mine) this.running.delete(chat.id);
    this.update(chat, node);
    this.refresh(chat);
    chat.updated = Date.now();
    if (chat.nodes[node.id]) this.save(chat);
    announce({ done: "The answer is complete", stopped: "Stopped", error: `No answer: ${node.error?.message}` }[node.state]);
  }

  /** At most one update a frame, and so few of a text that is slow to lay out that the page stays quick. */
  schedule(chat, node, begun) {
    return setTimeout(() => requestAnimationFrame(() => {
      const start = performance.now();
      begun();
      this.update(chat, node);
      this.cost = performance.now() - start;
    }), Math.max(30, 4 * (this.cost ?? 0)));
  }

  update(chat, node) {
    if (chat !== this.chat) return;
    this.views.get(node.id)?.update(this.pausedBy);
    this.list.setAttribute("aria-busy", String(this.running.has(chat.id)));
    this.updateButton();
    this.keepUp();
  }

  /** Countdowns, and why nothing comes. What has come is kept now and then, in case the window is closed. */
  tick() {
    const now = Date.now();
    if (now - (this.keptAt ?? 0) > KEEP_EVERY) {
      this.keptAt = now;
      for (const { chat } of this.running.values()) this.save(chat);
    }
    const running = this.chat && this.running.get(this.chat.id);
    if (running) this.views.get(running.node.id)?.update(this.pausedBy);
  }

  /** The cluster is ready again: who waits to ask need not wait longer. */
  askAgain() {
    for (const { node } of this.running.values()) node.retry?.now?.();
  }

  stop() {
    this.running.get(this.chat.id)?.controller.abort();
  }

  sendOrStop() {
    if (this.running.has(this.chat.id)) this.stop();
    else this.send(this.field.value);
  }

  onKey(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!this.running.has(this.chat.id)) this.send(this.field.value);
    }
    if (event.key === "ArrowUp" && !this.field.value) {
      const last = pathOf(this.chat).findLast((node) => node.role === "user");
      if (last && !this.running.has(this.chat.id)) { event.preventDefault(); this.views.get(last.id)?.edit(); }
    }
  }

  updateButton() {
    const busy = this.chat && this.running.has(this.chat.id);
    this.button.classList.toggle("busy", Boolean(busy));
    this.button.disabled = !busy && !this.field.value.trim();
    const label = busy ? "Stop" : "Send";
    if (this.button.getAttribute("aria-label") !== label) {
      this.button.setAttribute("aria-label", label);
      this.button.querySelector("use").setAttribute("href", busy ? "#i-stop" : "#i-send");
    }
    // Where the browser does not let the field grow with its text.
    if (!CSS.supports("field-sizing", "content")) {
      this.field.style.height = "auto";
      this.field.style.height = `${Math.min(this.field.scrollHeight, innerHeight / 3)}px`;
    }
  }

  get distance() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
  }

  /** Who scrolls up is left alone until coming back to the end. */
  onScroll() {
    const up = this.scroller.scrollTop < (this.lastTop ?? 0);
    this.lastTop = this.scroller.scrollTop;
    if (this.distance < NEAR) this.follow = true;
    else if (up) this.follow = false;
    byId("latest").hidden = this.follow || this.distance < NEAR;
  }

  keepUp() {
    if (this.follow) this.scroller.scrollTop = this.scroller.scrollHeight;
    else byId("latest").hidden = this.distance < NEAR;
  }

  toEnd() {
    this.follow = true;
    this.keepUp();
  }
}

