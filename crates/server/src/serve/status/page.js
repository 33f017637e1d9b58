// Reads /status.json every second and draws what it learns. Needs nothing from elsewhere.
"use strict";

const KEPT = 300; // samples, one a second
const PERIOD_MILLIS = 1000;
const PATIENCE_MILLIS = 5000;
const NS = "http://www.w3.org/2000/svg";

const el = (id) => document.getElementById(id);
const samples = [];
let last = null;
let hovered = null; // index into samples, while the mouse is over a plot

// --- figures ---------------------------------------------------------------------------------

function short(value, units, base) {
  let at = 0;
  while (value >= base && at < units.length - 1) { value /= base; at += 1; }
  const digits = value >= 100 || (at === 0 && Number.isInteger(value)) ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits) + units[at];
}
const count = (n) => short(n, ["", "k", "M", "G"], 1000);
const bytes = (n) => short(n, [" B", " KB", " MB", " GB", " TB"], 1000);
const rate = (n) => bytes(n) + "/s";
const micros = (n) => (n === null ? "–" : short(n, [" µs", " ms", " s"], 1000));

// Of counts by powers of two of microseconds: where `share` of them ends, in between by proportion.
function percentile(counts, share) {
  const total = counts.reduce((sum, n) => sum + n, 0);
  if (total === 0) return null;
  let left = total * share;
  for (let bits = 0; bits < counts.length; bits += 1) {
    if (left <= counts[bits]) {
      const low = bits === 0 ? 0 : 2 ** (bits - 1);
      const high = bits === 0 ? 1 : 2 ** bits;
      return low + (high - low) * (left / counts[bits]);
    }
    left -= counts[bits];
  }
  return 2 ** counts.length;
}

function sample(now, before) {
  const seconds = Math.max((now.now_millis - before.now_millis) / 1000, 0.001);
  const per = (name) => Math.max(now[name] - before[name], 0) / seconds;
  const counts = now.latency_counts.map((n, at) => Math.max(n - before.latency_counts[at], 0));
  return {
    at: now.now_millis,
    commands: per("commands"),
    errors: per("errors"),
    p50: percentile(counts, 0.5),
    p99: percentile(counts, 0.99),
    p999: percentile(counts, 0.999),
    received: per("received_bytes"),
    sent: per("sent_bytes"),
    cpu: per("cpu_micros") / 1e6,
    held: now.is_stopped ? 0 : now.delayed_rate || null,
    pending: now.pending_bytes,
    memtables: now.memtable_bytes,
  };
}

// --- drawing ---------------------------------------------------------------------------------

function svg(name, attributes, text) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// A round number not below `value`.
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value * 0.999);
}

function scale(values, logarithmic, least) {
  const highest = Math.max(least, ...values.filter((v) => v !== null));
  if (!logarithmic) {
    const top = ceiling(highest);
    return { top, ticks: [0, top / 2, top], place: (v) => v / top };
  }
  const powers = Math.max(1, Math.ceil(Math.log10(highest)));
  const ticks = Array.from({ length: powers + 1 }, (_, n) => 10 ** n);
  return { top: 10 ** powers, ticks, place: (v) => Math.log10(Math.max(v, 1)) / powers };
}

const WIDTH = 560, HEIGHT = 190, LEFT = 62, RIGHT = 10, TOP = 8, BOTTOM = 22;

// A plot of lines over the last minutes. `lines`: [name of the field, words].
function plot(id, lines, format, { logarithmic = false, least = 1, none = "–" } = {}) {
  const box = el(id);
  const image = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  const legend = document.createElement("div");
  legend.className = "legend";
  box.replaceChildren(image, legend);
  const inner = WIDTH - LEFT - RIGHT, high = HEIGHT - TOP - BOTTOM;
  const x = (index) => LEFT + inner * (1 - (samples.length - 1 - index) / (KEPT - 1));

  image.addEventListener("mousemove", (event) => {
    const frame = image.getBoundingClientRect();
    const at = ((event.clientX - frame.left) / frame.width) * WIDTH;
    const index = Math.round(samples.length - 1 - (1 - (at - LEFT) / inner) * (KEPT - 1));
    hovered = index >= 0 && index < samples.length ? samples[index].at : null;
    drawAll();
  });
  image.addEventListener("mouseleave", () => { hovered = null; drawAll(); });

  return () => {
    const { ticks, place } = scale(
      lines.flatMap(([field]) => samples.map((s) => s[field])), logarithmic, least);
    const y = (value) => TOP + high * (1 - place(value));
    const parts = [];
    for (const tick of ticks) {
      parts.push(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }));
      parts.push(svg("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, format(tick)));
    }
    for (const [minutes, anchor] of [[5, "start"], [2.5, "middle"], [0, "end"]]) {
      const words = minutes === 0 ? "now" : `−${minutes} min`;
      const at = LEFT + inner * (1 - minutes / 5);
      parts.push(svg("text", { x: at, y: HEIGHT - 6, "text-anchor": anchor }, words));
    }
    const shown = hovered === null ? samples.length - 1 : samples.findIndex((s) => s.at === hovered);
    if (hovered !== null && shown >= 0) {
      parts.push(svg("line", { class: "cursor", x1: x(shown), x2: x(shown), y1: TOP, y2: TOP + high }));
    }
    lines.forEach(([field], number) => {
      // A gap where there is nothing to show.
      let path = "", gap = true;
      samples.forEach((s, index) => {
        if (s[field] === null) { gap = true; return; }
        path += `${gap ? "M" : "L"}${x(index).toFixed(1)} ${y(s[field]).toFixed(1)}`;
        if (gap) path += "h0.1";
        gap = false;
      });
      parts.push(svg("path", { class: `series s${number}`, d: path || "M0 0", "data-field": field }));
    });
    image.replaceChildren(...parts);
    const values = lines.map(([field, words], number) => {
      const value = shown >= 0 ? samples[shown][field] : null;
      return { number, words, text: value === null ? none : format(value) };
    });
    image.setAttribute("aria-label", values.map((v) => `${v.words} ${v.text}`).join(", "));
    legend.replaceChildren(...values.map(({ number, words, text }) => {
      const item = document.createElement("span");
      const key = svg("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" });
      key.append(svg("path", { class: `series s${number}`, d: "M0 5H26" }));
      const value = document.createElement("b");
      value.textContent = text;
      item.append(key, `${words} `, value);
      return item;
    }));
  };
}

function drawLevels(levels) {
  const row = 24, label = 34, end = 150;
  const image = svg("svg", { viewBox: `0 0 ${WIDTH} ${Math.max(levels.length, 1) * row + 6}`, role: "img" });
  const most = Math.max(1, ...levels.map(([, size]) => size));
  levels.forEach(([files, size], level) => {
    const y = level * row + 4;
    const width = size === 0 ? 0 : Math.max(2, ((WIDTH - label - end) * size) / most);
    image.append(
      svg("text", { class: "label", x: 4, y: y + 13 }, `L${level}`),
      svg("rect", { class: "bar", x: label, y, width, height: row - 8, rx: 2, "data-level": level }),
      svg("text", { x: label + width + 6, y: y + 13 },
        files === 0 ? "empty" : `${count(files)} ${files === 1 ? "file" : "files"}, ${bytes(size)}`));
  });
  if (levels.length === 0) {
    image.append(svg("text", { x: 4, y: 17 }, "no table files yet: everything is in memtables and the log"));
  }
  const words = levels.map(([files, size], level) => `level ${level}: ${files} files, ${bytes(size)}`);
  image.setAttribute("aria-label", words.join("; ") || "no files");
  el("plot-levels").replaceChildren(image);
}

const plots = [
  plot("plot-commands", [["commands", "commands"], ["errors", "errors"]], (n) => count(n) + "/s", { least: 10 }),
  plot("plot-latency", [["p50", "p50"], ["p99", "p99"], ["p999", "p99.9"]], micros, { logarithmic: true, least: 100 }),
  plot("plot-network", [["received", "received"], ["sent", "sent"]], rate, { least: 1000 }),
  plot("plot-stalls", [["held", "held to"]], rate, { least: 1e6, none: "no limit" }),
  plot("plot-pending", [["pending", "to compact"], ["memtables", "memtables"]], bytes, { least: 1e6 }),
];

function drawAll() { plots.forEach((draw) => draw()); }

// --- reading ---------------------------------------------------------------------------------

function show(now) {
  const own = samples[samples.length - 1];
  el("version").textContent = `${now.version}, up ${duration(now.uptime_millis / 1000)}`;
  el("now-clients").textContent = count(now.clients);
  el("now-keys").textContent = count(now.keys);
  el("now-memory").textContent = bytes(now.resident_peak_bytes);
  if (own) {
    el("now-commands").textContent = count(Math.round(own.commands));
    el("now-p99").textContent = micros(own.p99);
    el("now-cpu").textContent = own.cpu.toFixed(2);
  }
  const state = now.is_stopped ? "Writes are stopped. "
    : now.delayed_rate ? `Writes are held to ${rate(now.delayed_rate)}. ` : "Writes have no limit. ";
  const jobs = `Flushes running: ${now.flushes}, compactions: ${now.compactions}, `
    + `memtables that wait: ${now.sealed_memtables}. `;
  el("controller-now").textContent = `${state}${jobs}Controller: ${now.controller.split("\n")[0]}`;
  el("controller").textContent = now.controller;
  el("stalls").textContent = now.stalls.trim();
  drawLevels(now.levels);
  drawAll();
}

function duration(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = Math.max(0, parts.findIndex(([length]) => seconds >= length));
  const [length, unit] = seconds < 1 ? [1, "s"] : parts[at];
  return `${Math.floor(seconds / length)} ${unit}`;
}

async function read() {
  const state = el("connection");
  try {
    const reply = await fetch("/status.json", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MILLIS) });
    if (!reply.ok) throw new Error(`status ${reply.status}`);
    const now = await reply.json();
    // Another process counts from zero.
    if (last && last.process !== now.process) { last = null; samples.length = 0; }
    if (last && now.now_millis > last.now_millis) {
      samples.push(sample(now, last));
      if (samples.length > KEPT) samples.shift();
    }
    last = now;
    show(now);
    state.textContent = "live";
    state.className = "";
  } catch (error) {
    state.textContent = `no answer: ${error.message}`;
    state.className = "bad";
  }
  setTimeout(read, PERIOD_MILLIS);
}

read();
