// What /cluster says, once a second while somebody looks, and what two of its answers say together.

import { ApiError, request } from "./api.js";

const PERIOD = 1000; // milliseconds
export const HISTORY = 60; // samples that charts go back

const rate = (now, before, seconds) => (seconds > 0 ? Math.max(0, (now - before) / seconds) : 0);

/** Is this node why the cluster is not complete? When one is lost all links are made anew, and the reason names it. */
export function isLost(node, status) {
  if (node.connected || !["recovering", "ready"].includes(status.state)) return false;
  return status.reason.includes(node.name) || !status.nodes.some(({ name }) => name !== "lead" && status.reason.includes(name));
}

/** The mean of what was observed between two samples; null if nothing was. */
function mean(now, before) {
  const count = now.count - (before?.count ?? 0);
  return count > 0 ? (now.seconds - (before?.seconds ?? 0)) / count : null;
}

export class ClusterFeed {
  constructor() {
    this.listeners = new Set();
    this.samples = []; // of one run of the lead, oldest first
    this.events = []; // {time, text, kind}, newest first
    this.lost = new Set(); // names of nodes
    this.status = null;
    this.problem = null; // ApiError while there is no answer
    document.addEventListener("visibilitychange", () => this.poll());
  }

  subscribe(listener) {
    this.listeners.add(listener);
    if (this.status || this.problem) listener(this);
  }

  /** Asks now, and from then on every second. */
  async poll() {
    clearTimeout(this.timer);
    if (document.hidden || this.asking) return;
    this.asking = true;
    try {
      const response = await request("cluster", { quiet: true, signal: AbortSignal.timeout(5000) });
      this.take(await response.json());
    } catch (error) {
      const problem = error instanceof ApiError ? error : new ApiError("The server does not answer.", { code: "unreachable" });
      if (!this.problem) this.note(problem.status === 401 ? "An API key is needed" : problem.message, "bad");
      this.problem = problem;
    }
    this.asking = false;
    for (const listener of this.listeners) listener(this);
    this.timer = setTimeout(() => this.poll(), PERIOD);
  }

  note(text, kind = "") {
    this.events.unshift({ time: new Date(), text, kind });
    this.events.length = Math.min(this.events.length, 50);
  }

  take(status) {
    const before = this.status;
    const same = before && status.uptime_seconds >= before.uptime_seconds && status.nodes.length === before.nodes.length;
    if (this.problem && before) this.note("The server answers again", "good");
    if (before && !same) this.note("The server was started anew");
    if (!same) this.samples = [];
    this.noteChanges(same ? before : null, status);
    this.problem = null;
    this.status = status;
    this.samples.push(this.sample(status, same ? before : null));
    if (this.samples.length > HISTORY) this.samples.shift();
  }

  noteChanges(before, status) {
    if (!before) {
      if (status.state !== "ready") this.note(`The cluster is ${status.state}`);
      return;
    }
    for (const node of status.nodes) {
      if (isLost(node, status) && !this.lost.has(node.name)) {
        this.lost.add(node.name);
        this.note(`Node ${node.name} is away${status.reason ? `: ${status.reason}` : ""}`, "bad");
      }
      if (node.connected && this.lost.delete(node.name)) this.note(`Node ${node.name} is there again`, "good");
    }
    if (before.state !== status.state) {
      this.note(status.state === "ready" ? `Ready, epoch ${status.epoch}` : `The cluster is ${status.state}`, status.state === "ready" ? "good" : "");
    }
  }

  sample(status, before) {
    const seconds = before ? status.uptime_seconds - before.uptime_seconds : 0;
    const since = (name) => rate(status.tokens[name], before?.tokens[name] ?? 0, seconds);
    return {
      status,
      completion: since("completion"),
      prompt: since("prompt"),
      between: before && mean(status.latency.inter_token, before.latency.inter_token),
      nodes: status.nodes.map((node, stage) => {
        const old = before?.nodes[stage] ?? node;
        return {
          tokens: rate(node.tokens, old.tokens, seconds),
          sent: rate(node.sent_bytes, old.sent_bytes, seconds),
          received: rate(node.received_bytes, old.received_bytes, seconds),
          busy: Math.min(1, node.busy ?? 0),
        };
      }),
    };
  }

  get latest() {
    return this.samples.at(-1);
  }

  /** The mean of a latency over the last minute, or else since the start. */
  latency(name) {
    const old = this.samples[Math.max(0, this.samples.length - 60)]?.status;
    const now = this.status.latency[name];
    return mean(now, old?.latency[name]) ?? mean(now, null);
  }

  series(pick) {
    return this.samples.map(pick);
  }

  /** Why answers pause, or "". */
  get pause() {
    if (this.status?.state !== "recovering" || this.problem) return "";
    return this.status.reason || "the cluster is recovering";
  }
}
