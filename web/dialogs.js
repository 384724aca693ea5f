// The dialogs: settings of a chat, and the API key.

import { apiKey, setApiKey } from "./api.js";
import { byId } from "./dom.js";
import { checkedSettings } from "./conversation.js";

const NUMBERS = ["temperature", "top_p", "top_k", "max_tokens", "seed"];

const closeOnCancel = (dialog) => dialog.querySelector("button[value=cancel]").addEventListener("click", () => dialog.close());

/** `save(settings, alsoForNew)`. */
export function setUpSettings(save) {
  const dialog = byId("settings"), form = byId("settings-form"), error = byId("settings-error");
  closeOnCancel(dialog);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const fields = form.elements, extra = fields.extra.value.trim();
    try {
      const value = extra ? JSON.parse(extra) : {};
      if (typeof value !== "object" || !value || Array.isArray(value)) throw new SyntaxError("an object is needed");
    } catch ({ message }) {
      error.textContent = `More fields: ${message}`;
      fields.extra.focus();
      return;
    }
    const settings = { system: fields.system.value, extra };
    for (const name of NUMBERS) if (fields[name].value !== "") settings[name] = Number(fields[name].value);
    save(checkedSettings(settings), fields.keep.checked);
    dialog.close();
  });
  return (settings) => {
    const fields = form.elements;
    for (const name of ["system", "extra", ...NUMBERS]) fields[name].value = settings[name] ?? "";
    fields.keep.checked = false;
    error.textContent = "";
    dialog.showModal();
  };
}

let asking = null;

/** Asks for a key; resolves to whether one was given. One dialog for all that wait. */
export function askKey(wrong = Boolean(apiKey())) {
  const dialog = byId("key"), field = byId("key-form").elements.key;
  asking ??= new Promise((resolve) => {
    byId("key-error").textContent = wrong ? "The server does not take the key that this browser has." : "";
    field.value = "";
    dialog.returnValue = "";
    dialog.addEventListener("close", () => { asking = null; resolve(dialog.returnValue === "given"); }, { once: true });
    dialog.showModal();
  });
  return asking;
}

/** `changed` is called when another key is kept. */
export function setUpKey(changed) {
  const dialog = byId("key"), form = byId("key-form");
  closeOnCancel(dialog);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setApiKey(form.elements.key.value.trim());
    dialog.close("given");
    changed();
  });
}
