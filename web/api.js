// The server's API: requests with the key, errors as values, server-sent events.

const base = new URL(".", document.baseURI.split("#")[0]);

let key = read("kaiju-key") ?? "";
let askForKey = async () => false;

function read(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

export const apiKey = () => key;

export function setApiKey(value) {
  key = value;
  try {
    if (value) localStorage.setItem("kaiju-key", value);
    else localStorage.removeItem("kaiju-key");
  } catch { /* kept until the page is left */ }
}

/** `ask` shows the person that a key is needed; it resolves to true when there is another one to try. */
export function onKeyNeeded(ask) {
  askForKey = ask;
}

export class ApiError extends Error {
  constructor(message, { status = 0, code = "", retryAfter = 0 } = {}) {
    super(message);
    Object.assign(this, { status, code, retryAfter });
  }
  /** Will the same request probably be answered later? */
  get passes() {
    return this.status === 503 || this.status === 429 || this.status === 0;
  }
}

async function toError(response) {
  const retryAfter = Number(response.headers.get("Retry-After")) || 0;
  let message = `The server answered ${response.status}.`, code = "";
  try {
    const body = await response.json();
    message = body.error.message ?? message;
    code = body.error.code ?? code;
  } catch { /* a proxy's answer */ }
  return new ApiError(message, { status: response.status, code, retryAfter });
}

/** The response, if it is a good one. `quiet`: a missing key is an error and nobody is asked. */
export async function request(path, { body, signal, quiet = false } = {}) {
  for (;;) {
    const headers = {};
    if (key) headers.Authorization = `Bearer ${key}`;
    if (body) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(new URL(path, base), {
        method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal, cache: "no-store",
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The server does not answer.", { code: "unreachable", retryAfter: 2 });
    }
    if (response.ok) return response;
    if (response.status === 401 && !quiet && await askForKey()) continue;
    throw await toError(response);
  }
}

/** The data of each event of a stream. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
        const data = text.slice(0, end).split("\n").filter((line) => line.startsWith("data:"))
          .map((line) => line.slice(5).trimStart()).join("\n");
        if (data) yield data;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The chunks of a streamed chat completion. An error within the stream, or its end before [DONE], is thrown. */
export async function* chatChunks(body, signal) {
  const response = await request("v1/chat/completions", { body, signal });
  try {
    for await (const data of events(response)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(chunk.error.message, { status: 503, code: chunk.error.code ?? "" });
      yield chunk;
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
  }
  throw new ApiError("The connection ended before the answer did.", { code: "unreachable" });
}
