// One answer: from the request to its last chunk, through waits for a server that is not ready.
//
// node.state: "waiting" (for the first token), "retrying" (node.retry says why and until when), "streaming", then "done",
// "stopped" or "error".

import { ApiError, chatChunks } from "./api.js";
import { requestFor } from "./conversation.js";

const RETRIES = 60;
const SHORTEST = 30; // milliseconds from which a rate means something

function addToolCall(node, { index = 0, id, function: called }) {
  node.toolCalls ??= [];
  const call = (node.toolCalls[index] ??= { id: "", name: "", arguments: "" });
  if (id) call.id = id;
  if (called?.name) call.name += called.name;
  if (called?.arguments) call.arguments += called.arguments;
}

function take(node, chunk, since) {
  const choice = chunk.choices?.[0], delta = choice?.delta ?? {};
  const has = delta.content || delta.reasoning_content || delta.tool_calls;
  const now = performance.now() - since;
  if (has) {
    node.state = "streaming";
    node.timing.first ||= now;
    node.timing.total = now;
    node.chunks = (node.chunks ?? 0) + 1;
  }
  if (delta.content) node.content += delta.content;
  if (delta.reasoning_content) node.reasoning = (node.reasoning ?? "") + delta.reasoning_content;
  for (const call of delta.tool_calls ?? []) addToolCall(node, call);
  if (choice?.finish_reason) node.finish = choice.finish_reason;
  if (chunk.usage) {
    node.usage = {
      prompt: chunk.usage.prompt_tokens, completion: chunk.usage.completion_tokens,
      cached: chunk.usage.prompt_tokens_details?.cached_tokens ?? 0,
    };
  }
}

/** Waits, unless it is told to stop or to go on at once. */
function pause(milliseconds, node, signal) {
  return new Promise((resolve, reject) => {
    const end = () => { clearTimeout(timer); signal.removeEventListener("abort", stop); node.retry = null; };
    const stop = () => { end(); reject(new DOMException("stopped", "AbortError")); };
    const timer = setTimeout(() => { end(); resolve(); }, milliseconds);
    signal.addEventListener("abort", stop);
    node.retry.now = () => { end(); resolve(); };
  });
}

/** Fills `node`, calling `changed` as it grows. Never throws. */
export async function generate(chat, node, model, signal, changed) {
  Object.assign(node, { state: "waiting", content: "", timing: { first: 0, total: 0 } });
  for (const name of ["error", "usage", "finish", "toolCalls", "reasoning", "chunks"]) delete node[name];
  try {
    const body = requestFor(chat, node, model);
    for (let attempt = 0; ; attempt++) {
      const since = performance.now();
      try {
        for await (const chunk of chatChunks(body, signal)) {
          take(node, chunk, since);
          changed();
        }
        node.state = "done";
        break;
      } catch (error) {
        const begun = node.content || node.reasoning || node.toolCalls;
        if (!(error instanceof ApiError) || !error.passes || begun || attempt === RETRIES) throw error;
        const seconds = Math.min(error.retryAfter || 2, 30);
        node.state = "retrying";
        // Not enumerable: it holds a function, and no store needs it.
        Object.defineProperty(node, "retry", { value: { message: error.message, until: Date.now() + 1000 * seconds }, configurable: true, writable: true });
        changed();
        await pause(1000 * seconds, node, signal);
        node.state = "waiting";
        changed();
      }
    }
  } catch (error) {
    node.state = error.name === "AbortError" ? "stopped" : "error";
    if (node.state === "error") node.error = { message: error.message, code: error.code ?? "" };
  }
  delete node.retry;
  changed();
}

/** "31 tokens/s" and the like, of an answer that is done or on its way. */
export function figuresOf(node) {
  const figures = [];
  const { first = 0, total = 0 } = node.timing ?? {};
  const tokens = node.usage?.completion ?? node.chunks ?? 0;
  if (!first) return figures;
  if (tokens > 4 && total - first > SHORTEST) figures.push([`${format(1000 * (tokens - 1) / (total - first))} tokens/s`, "Tokens generated each second, after the first"]);
  figures.push([`${node.usage ? "" : "~"}${tokens} ${tokens === 1 ? "token" : "tokens"}`, "Length of the answer"]);
  figures.push([`first after ${first < 995 ? `${Math.round(first)} ms` : `${format(first / 1000)} s`}`, "Time to the first token"]);
  if (node.usage) {
    const { prompt, cached } = node.usage;
    figures.push([cached ? `prompt ${prompt}, ${cached} cached` : `prompt ${prompt}`, "Tokens of the prompt, and of these taken from the prefix cache"]);
  }
  if (node.finish === "length") figures.push(["cut at the limit of tokens", "finish_reason: length"]);
  return figures;
}

export const format = (value) => (value < 99.95 ? value.toFixed(1) : Math.round(value).toString());
