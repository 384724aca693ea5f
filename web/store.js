// Chats in the browser's IndexedDB; where there is none, until the page is left.

const STORE = "chats";
const memory = new Map();
const others = "BroadcastChannel" in globalThis ? new BroadcastChannel("kaiju-chats") : null;
let database = null;

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

/** False if chats will not outlive the page. */
export async function openStore() {
  try {
    const opening = indexedDB.open("kaiju", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE, { keyPath: "id" });
    database = await done(opening);
    database.onversionchange = () => database.close();
    return true;
  } catch {
    return false;
  }
}

/** Runs one request on the store. Writing resolves when the transaction is complete. */
function run(mode, make) {
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(STORE, mode);
    const request = make(transaction.objectStore(STORE));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = transaction.onerror = () => reject(transaction.error ?? request.error);
  });
}

export async function loadChats() {
  const chats = database ? await run("readonly", (store) => store.getAll()) : [...memory.values()];
  return chats.sort((a, b) => b.updated - a.updated);
}

export const loadChat = async (id) => (database ? run("readonly", (store) => store.get(id)) : memory.get(id));

/** Throws a QuotaExceededError when the browser gives no more room. */
export async function saveChat(chat) {
  if (database) await run("readwrite", (store) => store.put(chat));
  else memory.set(chat.id, structuredClone(chat));
  others?.postMessage(chat.id);
}

export async function deleteChat(id) {
  if (database) await run("readwrite", (store) => store.delete(id));
  else memory.delete(id);
  others?.postMessage(id);
}

/** Calls with the id of a chat that another window has changed or deleted. */
export function onOtherWindow(changed) {
  if (others) others.onmessage = ({ data }) => changed(data);
}
