// The page: which view, which chat, and what they share.

import { ApiError, onKeyNeeded, request } from "./api.js";
import { ChatView } from "./chat-view.js";
import { ClusterFeed } from "./cluster-feed.js";
import { ClusterStrip, ClusterView } from "./cluster-view.js";
import { checkedChat, checkedSettings, newChat, newId } from "./conversation.js";
import { askKey, setUpKey, setUpSettings } from "./dialogs.js";
import { byId, element, setText, toast } from "./dom.js";
import { Sidebar } from "./sidebar.js";
import { deleteChat, loadChat, loadChats, onOtherWindow, openStore, saveChat } from "./store.js";

const chats = new Map();
const newestFirst = () => [...chats.values()].sort((a, b) => b.updated - a.updated);

function remembered(name, fallback) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? fallback;
  } catch {
    return fallback;
  }
}

function remember(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch { /* a browser that keeps nothing */ }
}

let warned = false;
const forgotten = new Set(); // ids of chats that an answer on its way must not bring back

async function save(chat) {
  if (forgotten.has(chat.id)) return;
  const isNew = !chats.has(chat.id);
  chats.set(chat.id, chat);
  if (isNew && chat === view.chat) {
    byId("tab-chat").href = `#/chat/${chat.id}`;
    if (!byId("chat").hidden) history.replaceState(null, "", byId("tab-chat").href);
  }
  sidebar.render();
  try {
    await saveChat(chat);
  } catch (error) {
    if (warned) return;
    warned = true;
    toast(error.name === "QuotaExceededError" ? "The browser has no more room for chats: export or delete some." : `The browser does not keep this chat: ${error.message}`);
  }
}

async function forget(chat) {
  forgotten.add(chat.id);
  view.running.get(chat.id)?.controller.abort();
  chats.delete(chat.id);
  if (view.chat === chat) location.hash = "#/";
  sidebar.render();
  await deleteChat(chat.id);
  toast("Chat deleted.", { label: "Undo", run: () => { forgotten.delete(chat.id); save(chat); } });
}

const feed = new ClusterFeed();
const view = new ChatView({ save, model: () => byId("model").value || undefined, changed: () => sidebar.render() });
const sidebar = new Sidebar({
  chats: newestFirst,
  current: () => (byId("chat").hidden ? "" : view.chat?.id),
  running: (id) => view.running.has(id),
  rename: (chat, title) => { Object.assign(chat, { title, named: true }); save(chat); },
  remove: forget,
});
const startChat = () => newChat(checkedSettings(remembered("kaiju-settings", {})));

/** #/cluster, #/chat/ID, and #/ for a new chat. */
function route() {
  const [, name, id] = location.hash.split("/");
  const cluster = name === "cluster";
  byId("chat").hidden = cluster;
  byId("cluster").hidden = !cluster;
  byId("strip").hidden = cluster;
  document.body.classList.toggle("wide-view", cluster);
  byId("settings-open").hidden = cluster;
  byId("model-label").hidden = cluster || byId("model").options.length < 2;
  for (const [tab, on] of [["tab-chat", !cluster], ["tab-cluster", cluster]]) {
    if (on) byId(tab).setAttribute("aria-current", "page");
    else byId(tab).removeAttribute("aria-current");
  }
  showMenu(false);
  if (cluster) {
    clusterView.update();
  } else {
    const chat = chats.get(id);
    if (chat ? chat !== view.chat : !view.chat || name === "chat" || chats.has(view.chat.id)) view.show(chat ?? startChat());
    byId("tab-chat").href = chat ? `#/chat/${id}` : "#/";
    if (matchMedia("(hover: hover)").matches) byId("composer").focus();
  }
  document.title = cluster ? "Cluster · Kaiju" : chats.has(id) ? `${chats.get(id).title} · Kaiju` : "Kaiju";
  sidebar.render();
}

function showMenu(open) {
  document.body.classList.toggle("menu-open", open);
  byId("shade").hidden = !open;
  byId("menu").setAttribute("aria-expanded", String(open));
}

async function loadModels() {
  const response = await request("v1/models").catch((error) => error);
  if (response instanceof ApiError) return;
  const { data } = await response.json();
  const wanted = remembered("kaiju-model", "");
  byId("model").replaceChildren(...data.map(({ id }) => element("option", { value: id, selected: id === wanted }, id)));
  byId("model-label").hidden = data.length < 2 || byId("chat").hidden;
  setText(byId("composer-help").querySelector(".name") ?? byId("composer-help").appendChild(element("span", { class: "name" })), data.length ? ` · ${data[0].id}` : "");
}

let lastState = "";

/** What keeps the cluster from answering, above everything. */
function showBanner({ status, problem }) {
  const state = problem ? "unreachable" : status.state;
  const layers = status?.nodes.reduce((sum, node) => sum + node.layers, 0), warm = status?.nodes.reduce((sum, node) => sum + node.layers_warm, 0);
  const texts = {
    ready: "",
    unreachable: problem?.message,
    connecting: `Waiting for the nodes. ${status?.reason ?? ""}`,
    loading: layers ? `Loading the model: ${warm} of ${layers} layers are ready.` : "Loading the model.",
    recovering: `The cluster recovers: ${status?.reason || "a node is away"}. Answers go on when it is complete again.`,
    stopping: "The server is stopping.",
  };
  byId("banner").hidden = state === "ready" || !byId("cluster").hidden;
  byId("banner").dataset.state = state;
  setText(byId("banner"), texts[state] ?? state);
  view.pausedBy = feed.pause;
  if (state === "ready" && state !== lastState) view.askAgain();
  lastState = state;
  if (state === "ready" && !byId("model").options.length) loadModels();
}

function exportChats() {
  const file = new Blob([JSON.stringify({ format: "kaiju-chats", version: 1, chats: newestFirst() }, null, 1)], { type: "application/json" });
  const link = element("a", { href: URL.createObjectURL(file), download: `kaiju-chats-${new Date().toISOString().slice(0, 10)}.json` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function importChats(file) {
  try {
    const data = JSON.parse(await file.text());
    if (data?.format !== "kaiju-chats" || !Array.isArray(data.chats)) throw new Error("it is no export of chats");
    const taken = data.chats.map(checkedChat).filter(Boolean);
    for (const chat of taken) {
      if (chats.has(chat.id)) chat.id = newId();
      chats.set(chat.id, chat);
      await saveChat(chat);
    }
    toast(`${taken.length} ${taken.length === 1 ? "chat" : "chats"} imported.`);
  } catch (error) {
    toast(`${file.name} was not imported: ${error.message}.`);
  }
  sidebar.render();
}

function listen() {
  const open = setUpSettings((settings, forNew) => {
    view.chat.settings = settings;
    if (forNew) remember("kaiju-settings", settings);
    if (chats.has(view.chat.id)) save(view.chat);
  });
  setUpKey(() => { feed.poll(); loadModels(); });
  onKeyNeeded(() => askKey());
  byId("settings-open").addEventListener("click", () => open(view.chat.settings));
  byId("api-key").addEventListener("click", () => askKey(false));
  byId("new-chat").addEventListener("click", () => { location.hash = "#/"; route(); byId("composer").focus(); });
  byId("menu").addEventListener("click", () => showMenu(!document.body.classList.contains("menu-open")));
  byId("shade").addEventListener("click", () => showMenu(false));
  byId("export").addEventListener("click", exportChats);
  byId("import").addEventListener("click", () => byId("import-file").click());
  byId("import-file").addEventListener("change", async ({ target }) => { if (target.files[0]) await importChats(target.files[0]); target.value = ""; });
  byId("theme").value = document.documentElement.dataset.theme;
  byId("theme").addEventListener("change", ({ target }) => {
    document.documentElement.dataset.theme = target.value;
    try {
      localStorage.setItem("kaiju-theme", target.value);
    } catch { /* until the page is left */ }
  });
  byId("model").addEventListener("change", ({ target }) => remember("kaiju-model", target.value));
  addEventListener("hashchange", route);
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") {
      if (document.body.classList.contains("menu-open")) showMenu(false);
      else if (view.running.has(view.chat?.id)) view.stop();
    }
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      showMenu(matchMedia("(max-width: 52rem)").matches);
      byId("search").focus();
    }
  });
  onOtherWindow(async (id) => {
    if (view.running.has(id)) return;
    const chat = await loadChat(id);
    if (chat) chats.set(id, chat);
    else chats.delete(id);
    if (view.chat?.id === id && chat) view.renew(chat);
    sidebar.render();
  });
}

const clusterView = new ClusterView(byId("cluster"), feed);
new ClusterStrip(byId("strip"), feed);
feed.subscribe(showBanner);
listen();
if (!await openStore()) toast("This browser keeps no data for this page: chats are gone when you leave it.");
for (const chat of await loadChats().catch(() => [])) {
  // What a closed window left unfinished.
  for (const node of Object.values(chat.nodes)) if (["waiting", "retrying", "streaming"].includes(node.state)) node.state = "stopped";
  chats.set(chat.id, chat);
}
route();
feed.poll();
loadModels();
