// A chat as a tree of messages: editing or retrying one begins a branch beside it. Plain data, as it is stored.
//
// chat: {id, title, named, created, updated, settings, nodes: {id: node}, selected: {parent or "": child}}
// node: {id, parent, role, content, reasoning, toolCalls, toolCallId, state, error, usage, timing, finish, created}

export const newId = () => crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("-");

export function newChat(settings) {
  const now = Date.now();
  return { id: newId(), title: "New chat", named: false, created: now, updated: now, settings: { ...settings }, nodes: {}, selected: {} };
}

export function addNode(chat, parent, node) {
  const made = { id: newId(), parent: parent?.id ?? "", content: "", created: Date.now(), ...node };
  chat.nodes[made.id] = made;
  chat.selected[made.parent] = made.id;
  chat.updated = made.created;
  if (!chat.named && node.role === "user" && !made.parent) chat.title = titleOf(node.content);
  return made;
}

const titleOf = (text) => {
  const line = text.trim().split("\n", 1)[0].replace(/\s+/g, " ");
  return line.length > 60 ? `${line.slice(0, 59)}…` : line || "New chat";
};

/** The messages that are shown: from the first to the last of the selected branch. */
export function pathOf(chat) {
  const path = new Set();
  for (let node = chat.nodes[chat.selected[""]]; node && !path.has(node); node = chat.nodes[chat.selected[node.id]]) path.add(node);
  return [...path];
}

/** The branches that begin beside this message, itself included, oldest first. */
export const siblingsOf = (chat, node) =>
  Object.values(chat.nodes).filter((other) => other.parent === node.parent).sort((a, b) => a.created - b.created);

export function selectNode(chat, node) {
  chat.selected[node.parent] = node.id;
}

/** Takes a message and all that follows it out; gives back a function that puts them in again. */
export function removeNode(chat, node) {
  const removed = [];
  const stack = [node.id], selected = { ...chat.selected };
  while (stack.length) {
    const id = stack.pop();
    for (const other of Object.values(chat.nodes)) if (other.parent === id) stack.push(other.id);
    removed.push(chat.nodes[id]);
    delete chat.nodes[id];
    delete chat.selected[id];
  }
  const left = siblingsOf(chat, node);
  if (left.length) chat.selected[node.parent] = left.at(-1).id;
  else delete chat.selected[node.parent];
  return () => {
    for (const each of removed) chat.nodes[each.id] = each;
    chat.selected = selected;
  };
}

/** What a model that writes its thoughts into the text itself has thought, and what it says. */
export function splitThought(node) {
  if (node.reasoning) return { thought: node.reasoning, text: node.content, thinking: !node.content };
  const match = /^\s*<think>([\s\S]*?)(<\/think>|$)/.exec(node.content ?? "");
  if (!match) return { thought: "", text: node.content, thinking: false };
  return { thought: match[1].trim(), text: node.content.slice(match[0].length).trimStart(), thinking: !match[2] };
}

function toMessage(node) {
  if (node.role === "tool") return { role: "tool", tool_call_id: node.toolCallId, content: node.content };
  if (node.role !== "assistant") return { role: node.role, content: node.content };
  const message = { role: "assistant", content: splitThought(node).text };
  if (node.toolCalls?.length) {
    message.tool_calls = node.toolCalls.map(({ id, name, arguments: text }) => ({ id, type: "function", function: { name, arguments: text } }));
  }
  return message;
}

const NUMBERS = ["temperature", "top_p", "top_k", "max_tokens", "seed"];

/** The body of the request for an answer to the messages before `node`. */
export function requestFor(chat, node, model) {
  const path = pathOf(chat);
  const before = path.slice(0, path.indexOf(node)).filter((each) => each.role !== "assistant" || each.content || each.toolCalls?.length);
  const { system, extra } = chat.settings;
  const body = {
    model, stream: true, stream_options: { include_usage: true },
    messages: [...(system?.trim() ? [{ role: "system", content: system }] : []), ...before.map(toMessage)],
  };
  for (const name of NUMBERS) if (typeof chat.settings[name] === "number") body[name] = chat.settings[name];
  return extra ? { ...body, ...JSON.parse(extra) } : body;
}

const text = (value, most = 10_000_000) => (typeof value === "string" ? value.slice(0, most) : "");
const isId = (value) => typeof value === "string" && /^[a-zA-Z0-9-]{1,100}$/.test(value);
const count = (value) => (Number.isFinite(value) ? value : 0);

function checkedNode(id, node) {
  const made = { id, parent: isId(node.parent) ? node.parent : "", role: node.role, content: text(node.content), created: count(node.created) };
  if (!["user", "assistant", "tool", "system"].includes(node.role)) return null;
  if (node.reasoning) made.reasoning = text(node.reasoning);
  if (node.toolCallId) made.toolCallId = text(node.toolCallId, 200);
  if (Array.isArray(node.toolCalls)) {
    made.toolCalls = node.toolCalls.map((call) => ({ id: text(call?.id, 200), name: text(call?.name, 200), arguments: text(call?.arguments) }));
  }
  if (node.role === "assistant") made.state = node.state === "stopped" || node.state === "error" ? node.state : "done";
  if (node.error) made.error = { message: text(node.error.message, 2000), code: text(node.error.code, 100) };
  if (node.usage) made.usage = { prompt: count(node.usage.prompt), completion: count(node.usage.completion), cached: count(node.usage.cached) };
  if (node.timing) made.timing = { first: count(node.timing.first), total: count(node.timing.total) };
  if (node.finish) made.finish = text(node.finish, 40);
  return made;
}

/** A chat from a file of whatever origin: only what a chat has, or null. */
export function checkedChat(value) {
  if (typeof value !== "object" || !value || typeof value.nodes !== "object" || !value.nodes) return null;
  const chat = newChat({});
  if (isId(value.id)) chat.id = value.id;
  chat.title = text(value.title, 200) || chat.title;
  chat.named = value.named === true;
  chat.created = count(value.created) || chat.created;
  chat.updated = count(value.updated) || chat.created;
  chat.settings = checkedSettings(value.settings);
  for (const [id, node] of Object.entries(value.nodes)) {
    const made = isId(id) && node && typeof node === "object" ? checkedNode(id, node) : null;
    if (made) chat.nodes[id] = made;
  }
  for (const [parent, child] of Object.entries(value.selected ?? {})) {
    if (isId(child) && chat.nodes[child]?.parent === parent) chat.selected[parent] = child;
  }
  return chat;
}

export function checkedSettings(value) {
  const settings = {};
  for (const name of NUMBERS) if (Number.isFinite(value?.[name])) settings[name] = value[name];
  for (const name of ["system", "extra"]) if (value?.[name]) settings[name] = text(value[name], 200_000);
  try {
    if (settings.extra && typeof JSON.parse(settings.extra) !== "object") delete settings.extra;
  } catch {
    delete settings.extra;
  }
  return settings;
}
