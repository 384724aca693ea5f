// The cluster as one sees it work: the ring of stages with their layers, memory and links, the KV cache, the queue.

import { Chart } from "./chart.js";
import { HISTORY, isLost } from "./cluster-feed.js";
import { element, setText } from "./dom.js";
import { bytesPerSecond, duration, gigabytes, perSecond, percent, seconds, short } from "./units.js";

const BUSY_HISTORY = 60;

/** A labelled part of a bar whose width is a share. */
function bar(name, ...kinds) {
  const parts = kinds.map((kind) => element("i", { class: kind }));
  const root = element("div", { class: "bar", role: "img", "aria-label": name }, parts);
  return {
    root,
    show(shares, label) {
      shares.forEach((share, index) => { parts[index].style.width = `${(100 * Math.max(0, Math.min(1, share || 0))).toFixed(2)}%`; });
      if (root.getAttribute("aria-label") !== label) root.setAttribute("aria-label", label);
    },
  };
}

class Tile {
  constructor(name, { chart, meter, hint }) {
    this.value = element("strong", {}, "–");
    this.unit = element("span", { class: "unit" });
    this.note = element("p", { class: "note" });
    this.root = element("section", { class: "tile", title: hint }, element("h3", {}, name), element("p", { class: "value" }, this.value, this.unit));
    if (chart) this.root.append((this.chart = new Chart(HISTORY)).root);
    if (meter) this.root.append((this.meter = bar(name, ...meter)).root);
    this.root.append(this.note);
  }

  show(value, unit, note) {
    setText(this.value, value);
    setText(this.unit, unit);
    setText(this.note, note);
  }
}

/** What a node is doing, in a word; its card has that as a class. */
function stateOf(node, status) {
  if (!node.connected) return status.state === "connecting" ? "awaited" : isLost(node, status) ? "away" : "joining";
  if (status.state === "loading") return node.layers_warm < node.layers ? "loading" : "loaded";
  return node.busy > 0.02 ? "working" : "idle";
}

const WORDS = { awaited: "awaited", away: "away", joining: "joins again", loading: "loading", loaded: "loaded", working: "working", idle: "idle" };

const row = (name, value) => element("p", {}, element("span", { class: "name" }, name), value);

class StageCard {
  constructor(stage) {
    this.name = element("h3");
    this.state = element("span", { class: "state" });
    this.host = element("p", { class: "host" });
    this.layers = element("span");
    this.cells = element("div", { class: "cells", "aria-hidden": "true" });
    this.memory = element("span");
    this.memoryBar = bar("Memory", "peak");
    this.busy = element("span");
    this.chart = new Chart(BUSY_HISTORY, 1);
    this.tokens = element("span");
    this.reason = element("p", { class: "reason" });
    this.root = element("li", { class: "stage", data: { stage } },
      element("header", {}, element("span", { class: "number", "aria-label": `Stage ${stage}` }, String(stage)), this.name, this.state),
      this.host, this.reason,
      element("div", { class: "figures" },
        row("Layers", this.layers), this.cells,
        row("Memory", this.memory), this.memoryBar.root,
        row("Busy", this.busy), this.chart.root,
        row("Tokens", this.tokens)));
    this.root.style.setProperty("--stage", `var(--stage-${stage % 8})`);
  }

  /** One cell for each layer of the model; the node's own are coloured as they become ready. */
  showCells(node, total, loading) {
    if (this.cells.children.length !== total) this.cells.replaceChildren(...Array.from({ length: total }, () => element("i")));
    // Nodes that wait for a lost one keep their layers, though they have to report them anew.
    const warm = loading ? node.layers_warm : node.layers;
    [...this.cells.children].forEach((cell, layer) => {
      const own = layer >= node.first_layer && layer < node.first_layer + node.layers;
      const kind = own ? (layer < node.first_layer + warm ? "own warm" : "own") : "";
      if (cell.className !== kind) cell.className = kind;
    });
  }

  show(node, rates, status, total, series) {
    const state = stateOf(node, status);
    this.root.dataset.state = state;
    setText(this.name, node.stage === 0 ? "Lead" : node.host || node.name);
    setText(this.state, state === "loading" ? percent(node.layers_warm / node.layers) : WORDS[state]);
    setText(this.host, [node.stage === 0 ? node.host : node.name, node.engine].filter(Boolean).join(" · "));
    const last = node.first_layer + node.layers - 1;
    const range = node.layers ? `${node.first_layer}–${last}` : "none";
    setText(this.layers, node.layers ? `${range} of ${total}` : "–");
    this.showCells(node, Math.min(total, 256), state === "loading" || state === "awaited");
    const { planned_memory_bytes: planned, peak_memory_bytes: peak } = node;
    this.memory.title = "The most that the node has needed, of what was planned for it";
    setText(this.memory, planned ? `${gigabytes(peak, planned)} of ${gigabytes(planned)}` : "–");
    this.memoryBar.show([peak / planned], `Memory: ${percent(peak / planned)} of what is planned`);
    setText(this.busy, node.connected ? percent(rates.busy) : "–");
    setText(this.tokens, node.connected ? perSecond(rates.tokens) : "–");
    setText(this.reason, state === "away" ? status.reason || "The link to this node is down." : "");
    this.chart.show(series);
  }
}

/** The arrow into a stage. Its dots move while tokens do. */
class LinkArrow {
  constructor(stage) {
    this.latency = element("span", { class: "latency" });
    this.rate = element("span", { class: "rate" });
    this.root = element("li", { class: "arrow", data: { stage } }, this.latency, element("span", { class: "flow", "aria-hidden": "true" }), this.rate);
  }

  show(node, rates, flowing, state) {
    this.root.classList.toggle("flowing", flowing && node.connected);
    this.root.classList.toggle("cut", !node.connected && state !== "awaited");
    setText(this.latency, node.connected ? (node.round_trip_seconds > 0 ? seconds(node.round_trip_seconds) : "–") : state === "awaited" ? "" : "no link");
    // Of what nodes send to each other the lead knows nothing.
    setText(this.rate, node.connected && node.stage === 1 ? bytesPerSecond(rates.sent) : "");
  }
}

export class ClusterView {
  constructor(root, feed) {
    this.root = root;
    this.feed = feed;
    this.build();
    feed.subscribe(() => this.update());
  }

  build() {
    this.pill = element("span", { class: "pill" });
    this.title = element("h1");
    this.facts = element("p", { class: "facts" });
    this.alert = element("div", { class: "alert", role: "alert", hidden: true });
    this.tiles = {
      generated: new Tile("Generating", { chart: true, hint: "Tokens that all answers together grow by each second" }),
      prompts: new Tile("Reading prompts", { chart: true, hint: "Prompt tokens computed each second; those from the prefix cache cost nothing" }),
      requests: new Tile("Requests", { meter: ["waiting"], hint: "Answers on their way, and requests that wait for a place" }),
      latency: new Tile("First token", { chart: true, hint: "Mean time to the first token and between tokens, last minute" }),
      saved: new Tile("Saved", { meter: ["used"], hint: "Prompt tokens taken from the prefix cache, and drafted tokens that the model confirmed" }),
    };
    this.ring = element("ol", { class: "ring" });
    this.backLabel = element("span", { class: "label" });
    this.back = element("div", { class: "back" }, element("span", { class: "flow", "aria-hidden": "true" }), this.backLabel);
    this.split = element("div", { class: "split", role: "img" });
    this.ringTitle = element("h2");
    this.ringNote = element("p", { class: "note" }, "Times are round trips between the lead and the node.");
    this.kv = bar("KV cache", "used", "cached");
    this.kvLegend = element("p", { class: "legend" });
    this.batches = element("div", { class: "batches", role: "img" });
    this.batchText = element("p", { class: "legend" });
    this.log = element("ol", { class: "log" });
    this.root.replaceChildren(element("div", { class: "page" },
      element("header", {}, element("div", {}, this.title, this.facts), this.pill),
      this.alert,
      element("div", { class: "tiles" }, Object.values(this.tiles).map((tile) => tile.root)),
      element("section", { class: "panel pipeline" }, element("header", {}, this.ringTitle, this.ringNote), this.split, element("div", { class: "track" }, this.ring, this.back)),
      element("div", { class: "pair" },
        element("section", { class: "panel" }, element("h2", {}, "KV cache"), this.kv.root, this.kvLegend),
        element("section", { class: "panel" }, element("h2", {}, "Micro-batches in the pipeline"), this.batches, this.batchText)),
      element("section", { class: "panel" }, element("h2", {}, "What happened"), this.log)));
  }

  update() {
    const { feed } = this;
    if (this.root.hidden) return;
    this.showState();
    if (!feed.status) return;
    const { status, latest } = feed;
    this.root.classList.toggle("stale", Boolean(feed.problem));
    this.showTiles(status, latest);
    this.showRing(status, latest);
    this.showPool(status);
    this.showEvents();
  }

  showState() {
    const { status, problem } = this.feed;
    const state = problem ? (problem.status === 401 ? "key needed" : "unreachable") : status?.state ?? "…";
    setText(this.pill, state);
    this.pill.dataset.state = state;
    setText(this.title, status?.models[0] ?? "Cluster");
    if (status) {
      const others = status.models.slice(1);
      setText(this.facts, [others.length ? `also ${others.join(", ")}` : "", `context ${status.context.toLocaleString("en")}`, `epoch ${status.epoch}`,
        `up ${duration(status.uptime_seconds)}`, `Kaiju ${status.version}`].filter(Boolean).join(" · "));
    }
    const warm = status?.nodes.reduce((sum, node) => sum + node.layers_warm, 0), layers = status?.nodes.reduce((sum, node) => sum + node.layers, 0);
    const text = problem ? problem.message
      : status && status.state === "loading" && layers ? `Loading: ${warm} of ${layers} layers are ready.`
      : status && status.state !== "ready" ? status.reason || `The cluster is ${status.state}.` : "";
    this.alert.hidden = !text;
    setText(this.alert, text);
  }

  /** What flows, how fast, and what need not. */
  showTiles(status, latest) {
    const { feed, tiles } = this;
    const { requests, tokens } = status;
    tiles.generated.show(perSecond(latest.completion, ""), "tokens/s", `${short(tokens.completion)} in all`);
    tiles.generated.chart.show(feed.series((sample) => sample.completion));
    tiles.prompts.show(perSecond(latest.prompt, ""), "tokens/s", `${short(tokens.prompt)} in all`);
    tiles.prompts.chart.show(feed.series((sample) => sample.prompt));
    tiles.requests.show(String(requests.running), "running", `${requests.waiting} of ${requests.waiting_limit} places to wait taken · ${short(requests.finished)} finished`);
    tiles.requests.meter.show([requests.waiting / requests.waiting_limit], `Queue: ${requests.waiting} of ${requests.waiting_limit}`);
    const first = feed.latency("first_token"), between = feed.latency("inter_token");
    tiles.latency.show(first === null ? "–" : seconds(first), "", between === null ? "no token yet" : `then one every ${seconds(between)}`);
    tiles.latency.chart.show(feed.series((sample) => sample.between ?? 0));
    const cached = tokens.cached_prompt / (tokens.cached_prompt + tokens.prompt);
    const drafted = tokens.drafted ? ` · ${percent(tokens.accepted_draft / tokens.drafted)} of drafts accepted` : "";
    tiles.saved.meter.show([cached], `${percent(cached)} of prompts from the prefix cache`);
    tiles.saved.show(tokens.cached_prompt ? percent(cached) : "0 %", "of prompts", `${short(tokens.cached_prompt)} tokens from the prefix cache${drafted}`);
  }

  showRing(status, latest) {
    const { nodes } = status;
    const total = Math.max(0, ...nodes.map((node) => node.first_layer + node.layers));
    if (this.cards?.length !== nodes.length) {
      this.cards = nodes.map((node) => new StageCard(node.stage));
      this.arrows = nodes.map((node) => new LinkArrow(node.stage));
      this.parts = nodes.map(({ stage }) => {
        const part = element("i", {}, element("span"));
        part.style.setProperty("--stage", `var(--stage-${stage % 8})`);
        return part;
      });
      this.ring.replaceChildren(...nodes.flatMap((_, stage) => (stage ? [this.arrows[stage].root, this.cards[stage].root] : [this.cards[0].root])));
      this.split.replaceChildren(...this.parts);
      this.back.hidden = this.ringNote.hidden = nodes.length < 2;
    }
    const flowing = status.micro_batches.in_flight > 0 || latest.completion + latest.prompt > 0;
    this.back.classList.toggle("flowing", flowing && status.state === "ready");
    const returned = latest.nodes.at(-1).received;
    setText(this.backLabel, `hidden states return to the lead, which samples the tokens${returned > 0 ? ` · ${bytesPerSecond(returned)}` : ""}`);
    setText(this.ringTitle, !total ? `${nodes.length} ${nodes.length === 1 ? "node" : "nodes"}` : nodes.length === 1 ? `${total} layers on one node` : `${total} layers over ${nodes.length} nodes`);
    nodes.forEach((node, stage) => {
      const rates = latest.nodes[stage];
      this.cards[stage].show(node, rates, status, total, this.feed.series((sample) => sample.nodes[stage].busy));
      this.arrows[stage].show(node, rates, flowing, stateOf(node, status));
      const part = this.parts[stage];
      part.style.flexGrow = String(total ? node.layers : 1);
      part.className = stateOf(node, status);
      part.style.setProperty("--busy", rates.busy.toFixed(2));
      part.style.setProperty("--warm", node.layers ? (node.layers_warm / node.layers).toFixed(3) : "0");
      setText(part.firstChild, node.layers ? `${node.layers}` : "");
    });
    const words = nodes.map((node) => `${node.name} ${node.layers}`).join(", ");
    if (this.split.ariaLabel !== words) this.split.ariaLabel = `Layers of each node: ${words}`;
  }

  showPool(status) {
    const { total, used, cached } = status.kv_blocks, free = total - used - cached;
    this.kv.show([used / total, cached / total], `KV cache: ${percent(used / total)} used, ${percent(cached / total)} cached`);
    this.kvLegend.replaceChildren(
      element("span", { class: "used" }, `${short(used)} used by answers`), element("span", { class: "cached" }, `${short(cached)} kept for prompts that begin alike`),
      element("span", { class: "free" }, `${short(free)} free of ${short(total)} blocks`));
    const { limit, in_flight: flying, steps, overlapped } = status.micro_batches;
    const most = Math.min(limit, 64);
    if (this.batches.children.length !== most) this.batches.replaceChildren(...Array.from({ length: most }, () => element("i")));
    [...this.batches.children].forEach((dot, index) => dot.classList.toggle("on", index < flying));
    this.batches.ariaLabel = `${flying} of ${limit} micro-batches`;
    setText(this.batchText, `${flying} of ${limit} now · ${short(steps)} steps, ${steps ? percent(overlapped / steps) : "0 %"} of them while another was in the pipeline`);
  }

  showEvents() {
    const { events } = this.feed;
    const key = events[0] ? `${events.length} ${events[0].time.getTime()} ${events[0].text}` : "none";
    if (key === this.eventKey) return;
    this.eventKey = key;
    this.log.replaceChildren(...events.map(({ time, text, kind }) =>
      element("li", { class: kind || null }, element("time", { datetime: time.toISOString() }, time.toLocaleTimeString("en-GB")), element("span", {}, text))));
    if (!events.length) this.log.append(element("li", { class: "none" }, "Nothing since this page was opened: every node has stayed."));
  }
}

/** The pipeline in a line, above the chat. */
export class ClusterStrip {
  constructor(root, feed) {
    this.root = root;
    this.dot = element("i", { class: "dot" });
    this.stages = element("span", { class: "stages", "aria-hidden": "true" });
    this.text = element("span", { class: "figures" });
    root.append(this.dot, this.stages, this.text);
    feed.subscribe(() => this.update(feed));
  }

  update({ status, problem, latest }) {
    const state = problem ? "unreachable" : status.state;
    this.root.dataset.state = state;
    if (!status) {
      setText(this.text, problem.status === 401 ? "key needed" : "no answer");
      return;
    }
    if (this.stages.children.length !== status.nodes.length) {
      this.stages.replaceChildren(...status.nodes.map(({ stage }) => {
        const part = element("i");
        part.style.setProperty("--stage", `var(--stage-${stage % 8})`);
        return part;
      }));
    }
    status.nodes.forEach((node, stage) => {
      const part = this.stages.children[stage];
      part.className = stateOf(node, status);
      part.style.flexGrow = String(Math.max(1, node.layers));
      part.style.setProperty("--busy", latest.nodes[stage].busy.toFixed(2));
      part.title = `${node.name}: ${WORDS[stateOf(node, status)]}, ${percent(latest.nodes[stage].busy)} busy`;
    });
    const { kv_blocks: kv, requests } = status;
    const waiting = requests.waiting ? ` · ${requests.waiting} waiting` : "";
    setText(this.text, problem ? "no answer" : state === "ready" ? `${perSecond(latest.completion)} · KV ${percent(kv.used / kv.total)}${waiting}` : state);
    const label = `Cluster ${state}, ${status.nodes.filter((node) => node.connected).length} of ${status.nodes.length} nodes`;
    if (this.root.ariaLabel !== label) this.root.ariaLabel = label;
  }
}
