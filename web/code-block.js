// A block of code with its language, a copy button and colours.

import highlighter from "./library/highlight.js";
import "./library/purify.js";
import { copyText, element, icon } from "./dom.js";

const languages = ["bash", "c", "cmake", "cpp", "csharp", "css", "diff", "dockerfile", "go", "ini", "java", "javascript", "json",
  "kotlin", "lua", "makefile", "markdown", "perl", "php", "python", "r", "ruby", "rust", "scss", "sql", "swift", "typescript", "xml", "yaml"];
const aliases = {
  "c++": "cpp", "c#": "csharp", cc: "cpp", cs: "csharp", docker: "dockerfile", golang: "go", h: "c", hpp: "cpp", html: "xml", js: "javascript",
  jsx: "javascript", kt: "kotlin", make: "makefile", md: "markdown", mjs: "javascript", patch: "diff", pl: "perl", py: "python", python3: "python",
  rb: "ruby", rs: "rust", sh: "bash", shell: "bash", svg: "xml", toml: "ini", ts: "typescript", tsx: "typescript", yml: "yaml", zsh: "bash",
};
const LARGEST = 100_000; // characters that are coloured

const loading = new Map();

/** Resolves to the language's name when its grammar is there, or to null. */
function load(name) {
  const language = aliases[name] ?? name;
  if (!languages.includes(language)) return Promise.resolve(null);
  if (!loading.has(language)) {
    loading.set(language, import(`./library/languages/${language}.js`).then(({ default: grammar }) => {
      highlighter.registerLanguage(language, grammar);
      return language;
    }).catch(() => { loading.delete(language); return null; }));
  }
  return loading.get(language);
}

const blocks = new WeakMap();

function paint(figure) {
  const block = blocks.get(figure);
  if (!block.grammar || block.text.length > LARGEST) {
    block.code.textContent = block.text;
    return;
  }
  const { value } = highlighter.highlight(block.text, { language: block.grammar, ignoreIllegals: true });
  block.code.replaceChildren(DOMPurify.sanitize(value, { RETURN_DOM_FRAGMENT: true, ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"] }));
}

export function codeBlock(text, info) {
  const name = info.trim().split(/[\s{,]/, 1)[0];
  const code = element("code");
  const copy = element("button", { type: "button", class: "copy", "aria-label": "Copy the code", onclick: () => copyText(blocks.get(figure).text, copy) },
    icon("copy"), element("span", {}, "Copy"));
  const figure = element("figure", { class: "code" },
    element("figcaption", {}, element("span", {}, name || "text"), copy),
    element("pre", { tabindex: "0" }, code));
  blocks.set(figure, { text, code, grammar: null });
  paint(figure);
  load(name.toLowerCase()).then((grammar) => {
    if (!grammar) return;
    blocks.get(figure).grammar = grammar;
    paint(figure);
  });
  return figure;
}

export function updateCodeBlock(figure, text) {
  blocks.get(figure).text = text;
  paint(figure);
}
