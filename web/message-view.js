// One message on the page: its text, its thought, its tool calls, and what can be done with it.

import { announce, byId, copyText, element, icon, iconButton, setText } from "./dom.js";
import { siblingsOf, splitThought } from "./conversation.js";
import { figuresOf } from "./generation.js";
import { renderMarkdown } from "./markdown.js";

const pretty = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

export const isRunning = (node) => ["waiting", "retrying", "streaming"].includes(node.state);

/** `actions`: retry, edit, remove, select, answerTool; each takes the node. `pausedBy` says why the cluster pauses, or "". */
export class MessageView {
  constructor(chat, node, actions) {
    Object.assign(this, { chat, node, actions });
    this.body = element("div", { class: "body" });
    this.tools = element("div", { class: "actions" });
    this.status = element("div", { class: "status" });
    const names = { user: "You", assistant: "Answer", tool: "Result of a tool", system: "System" };
    this.node = node;
    this.root = element("article", { class: `message ${node.role}`, "aria-label": names[node.role] }, this.body, this.status, this.tools);
    this.update();
  }

  update(pausedBy = "") {
    if (this.node.role === "assistant") this.updateAnswer(pausedBy);
    else if (!this.editing) this.showPlain();
    this.updateActions();
  }

  /** Is the message, or the result of a tool, being written here? */
  get writing() {
    return this.editing || [...this.root.querySelectorAll("textarea")].some((field) => field.value);
  }

  showPlain() {
    if (this.node.role === "tool") {
      this.body.replaceChildren(element("div", { class: "tool-result" }, icon("tool"), element("pre", {}, this.node.content)));
    } else if (!this.body.firstChild) {
      this.body.replaceChildren(element("div", { class: "bubble" }, this.node.content));
    }
  }

  updateAnswer(pausedBy) {
    const { thought, text, thinking } = splitThought(this.node);
    this.updateThought(thought, thinking);
    if (!this.text) this.body.append(this.text = element("div", { class: "markdown" }));
    if (this.shown !== text) renderMarkdown(this.text, this.shown = text ?? "");
    this.text.classList.toggle("growing", this.node.state === "streaming" && !this.node.toolCalls);
    this.updateToolCalls();
    this.updateStatus(pausedBy);
  }

  updateThought(thought, thinking) {
    if (!thought) {
      this.thought?.remove();
      this.thought = null;
      return;
    }
    if (!this.thought) {
      this.shownThought = "";
      this.thoughtText = element("div", { class: "markdown" });
      this.thoughtTitle = element("summary", {}, "Thought");
      this.thought = element("details", { class: "thought" }, this.thoughtTitle, this.thoughtText);
      this.body.prepend(this.thought);
      this.thought.open = isRunning(this.node);
      this.thought.addEventListener("click", () => { this.folded = true; });
    }
    setText(this.thoughtTitle, thinking && isRunning(this.node) ? "Thinking…" : "Thought");
    if (!thinking && !this.folded) {
      this.folded = true;
      this.thought.open = false;
    }
    if (this.shownThought !== thought) renderMarkdown(this.thoughtText, this.shownThought = thought);
  }

  updateToolCalls() {
    const calls = this.node.toolCalls ?? [];
    this.calls ??= [];
    calls.forEach((call, index) => {
      if (!this.calls[index]) {
        const name = element("strong"), text = element("pre", { tabindex: "0" });
        const card = element("div", { class: "tool-call" }, element("div", { class: "tool-name" }, icon("tool"), element("span", {}, "Calls "), name), text);
        this.body.append(card);
        this.calls[index] = { card, name, text, form: null };
      }
      const shown = this.calls[index];
      setText(shown.name, call.name);
      setText(shown.text, isRunning(this.node) ? call.arguments : pretty(call.arguments));
      const answered = Object.values(this.chat.nodes).some((other) => other.toolCallId === call.id);
      if (!isRunning(this.node) && !answered && !shown.form) shown.card.append(shown.form = this.resultForm(call));
      if (answered && shown.form) {
        shown.form.remove();
        shown.form = null;
      }
    });
    for (const extra of this.calls.splice(calls.length)) extra.card.remove();
  }

  resultForm(call) {
    const field = element("textarea", { rows: "2", "aria-label": `Result of ${call.name}`, placeholder: "What the tool returns" });
    const form = element("form", { class: "tool-form" }, field, element("button", { type: "submit" }, "Send result"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.actions.answerTool(this.node, call, field.value);
    });
    return form;
  }

  updateStatus(pausedBy) {
    const { node } = this;
    const { state, retry } = node;
    const key = [state, retry?.message, retry && Math.ceil((retry.until - Date.now()) / 1000), pausedBy, node.error?.message, node.chunks, node.usage?.completion].join("|");
    if (key === this.statusKey) return;
    this.statusKey = key;
    this.status.className = `status ${state ?? ""}`;
    if (state === "retrying") {
      const seconds = Math.max(0, Math.ceil((retry.until - Date.now()) / 1000));
      this.status.replaceChildren(this.notice(`${retry.message}. Asking again in ${seconds} s.`.replace("..", "."), "Ask now", () => retry.now?.()));
    } else if (state === "error") {
      this.status.replaceChildren(this.notice(node.error.message, "Try again", () => this.actions.retry(node)));
    } else if (isRunning(node) && pausedBy) {
      this.status.replaceChildren(this.notice(`Paused: ${pausedBy}. The answer goes on by itself when the cluster is complete again.`));
    } else if (state === "waiting") {
      this.status.replaceChildren(element("span", { class: "dots", role: "img", "aria-label": "Waiting for the first token" }, element("i"), element("i"), element("i")));
    } else {
      const parts = figuresOf(node).map(([text, title]) => element("span", { title }, text));
      if (state === "stopped") parts.unshift(element("span", {}, "stopped"));
      this.status.replaceChildren(...parts);
    }
  }

  notice(text, label, run) {
    const notice = element("div", { class: "notice" }, icon("warn"), element("span", {}, text));
    if (label) notice.append(element("button", { type: "button", onclick: run }, label));
    return notice;
  }

  updateActions() {
    const { node, chat, actions } = this;
    const siblings = siblingsOf(chat, node), at = siblings.indexOf(node);
    const key = [isRunning(node), siblings.length, at, this.editing].join("|");
    if (key === this.actionsKey) return;
    this.actionsKey = key;
    this.tools.replaceChildren();
    if (isRunning(node) || this.editing) return;
    if (siblings.length > 1) {
      this.tools.append(element("span", { class: "branches" },
        iconButton("left", "Previous branch", () => actions.select(siblings[at - 1]), { disabled: at === 0 }),
        element("span", { "aria-label": `Branch ${at + 1} of ${siblings.length}` }, `${at + 1} / ${siblings.length}`),
        iconButton("right", "Next branch", () => actions.select(siblings[at + 1]), { disabled: at === siblings.length - 1 })));
    }
    const copy = iconButton("copy", "Copy message", () => copyText(node.role === "assistant" ? splitThought(node).text : node.content, copy));
    this.tools.append(copy);
    if (node.role === "user") this.tools.append(iconButton("edit", "Edit message", () => this.edit()));
    if (node.role === "assistant") this.tools.append(iconButton("retry", "Try again", () => actions.retry(node)));
    this.tools.append(iconButton("trash", "Delete message", () => actions.remove(node)));
  }

  edit() {
    this.editing = true;
    const field = element("textarea", { "aria-label": "Edit message", class: "edit" });
    field.value = this.node.content;
    const end = () => {
      this.editing = false;
      this.body.replaceChildren();
      this.update();
    };
    const send = () => {
      if (!field.value.trim()) return;
      end();
      this.actions.edit(this.node, field.value);
    };
    const cancel = () => { end(); byId("composer").focus(); };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.stopPropagation(); cancel(); }
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
    });
    this.body.replaceChildren(element("div", { class: "editor" }, field,
      element("div", { class: "buttons" }, element("button", { type: "button", onclick: cancel }, "Cancel"),
        element("button", { type: "button", class: "primary", onclick: send }, "Send"))));
    this.updateActions();
    field.focus();
    announce("Editing the message");
  }
}
