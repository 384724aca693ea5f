// Markdown to elements: marked reads it, DOMPurify lets through only what text needs, raw HTML is shown as text.
//
// A text that grows is rendered block by block: blocks that have not changed stay as they are, with the reader's
// selection, and only the last one is made anew.

import { Marked } from "./library/marked.js";
import "./library/purify.js";
import { codeBlock, updateCodeBlock } from "./code-block.js";
import { element } from "./dom.js";

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escape = (text) => text.replace(/[&<>"']/g, (character) => escapes[character]);

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html({ text, block }) {
      if (/^<br\s*\/?>$/i.test(text.trim())) return "<br>";
      return block ? `<p>${escape(text.trimEnd()).replace(/\n/g, "<br>")}</p>` : escape(text);
    },
    // Pictures would be fetched from elsewhere: who wants one follows the link.
    image({ href, text }) {
      return `<a href="${escape(href)}">${escape(text || href)}</a>`;
    },
  },
});

const rules = {
  RETURN_DOM_FRAGMENT: true,
  ALLOWED_TAGS: ["a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "input", "li", "ol", "p",
    "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"],
  ALLOWED_ATTR: ["href", "title", "align", "start", "type", "checked", "disabled", "class"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ADD_URI_SAFE_ATTR: ["align", "start", "type"], // which the expression does not judge
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

function finish(fragment) {
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
  for (const box of fragment.querySelectorAll("input")) {
    if (box.type === "checkbox") box.setAttribute("aria-label", "Done");
    else box.remove();
  }
  for (const code of fragment.querySelectorAll("pre > code")) {
    code.parentElement.replaceWith(codeBlock(code.textContent, /language-(\S+)/.exec(code.className)?.[1] ?? ""));
  }
  for (const table of fragment.querySelectorAll("table")) {
    const frame = element("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" });
    table.replaceWith(frame);
    frame.append(table);
  }
  return fragment;
}

function makeBlock(token) {
  if (token.type === "code") return codeBlock(token.text, token.lang ?? "");
  const block = element("div", { class: "block" });
  block.append(finish(DOMPurify.sanitize(marked.parser([token]), rules)));
  return block;
}

const rendered = new WeakMap();

/** Makes the children of `container` what the text says. */
export function renderMarkdown(container, text) {
  const before = rendered.get(container) ?? [];
  const tokens = marked.lexer(text).filter((token) => token.type !== "space" && token.type !== "def");
  const blocks = tokens.map((token, index) => {
    const old = before[index];
    if (old?.raw === token.raw && old.type === token.type) return old;
    if (old?.type === "code" && token.type === "code" && old.lang === token.lang) {
      updateCodeBlock(old.node, token.text);
      return { ...old, raw: token.raw };
    }
    return { raw: token.raw, type: token.type, lang: token.lang, node: makeBlock(token) };
  });
  blocks.forEach(({ node }, index) => {
    if (container.childNodes[index] !== node) container.insertBefore(node, container.childNodes[index] ?? null);
  });
  while (container.childNodes.length > blocks.length) container.lastChild.remove();
  rendered.set(container, blocks);
}
