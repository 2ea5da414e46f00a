// The page: all streams in a list, one stream large. Texts only ever enter as text, never as HTML.
"use strict";

const $ = id => document.getElementById(id);
const HEIGHT = 56, TRAIL = 48, MOST = 3000, FORECAST = 25;
const streams = new Map();
let model = null, order = [], chosen = null, paused = false, zoomed = null, onlyAlarms = false, wanted = "";
let drawList = true, drawDetail = true, detail = null, plots = [], shown = null, mostShown = 4;

// -- the server -------------------------------------------------------------------------------------------------------
function token() { return sessionStorage.getItem("psimlearn-token"); }
function headers() { return token() ? { authorization: "Bearer " + token() } : {}; }

async function ask(path) {
  const answer = await fetch(path, { headers: headers() });
  if (answer.status === 401) { $("login").hidden = false; throw new Error("token"); }
  if (!answer.ok) throw new Error("status " + answer.status);
  return answer.json();
}

// Server-sent events by fetch, which can send a token; ends when the connection does, or when `stop` is aborted.
async function listen(path, stop, take) {
  const answer = await fetch(path, { headers: headers(), signal: stop.signal });
  if (!answer.ok) throw new Error("status " + answer.status);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      let kind = "message", data = "";
      for (const line of part.split("\n")) {
        if (line.startsWith("event: ")) kind = line.slice(7);
        if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) take(kind, JSON.parse(data));
    }
  }
}

const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));
function connection(state) { $("connection").dataset.state = state; $("connection").textContent = state; }

async function followAll() {
  for (;;) {
    try {
      model = await ask("/v1/model");
      $("login").hidden = true;
      $("model").textContent = model.name + (model.alarm_one_in ? " \u00b7 false alarms: 1 in " + model.alarm_one_in + " rows" : " \u00b7 no alarms");
      await readAll();
      connection("live");
      await listen("/v1/events", new AbortController(), takeAll);
    } catch (error) {
      if (error.message === "token") { await entered(); continue; }
    }
    connection("lost");
    await pause(2000);
  }
}

async function readAll() {
  const known = new Set();
  for (let offset = 0, n = 1; offset < n; offset += 1000) {
    const page = await ask("/v1/streams?trail=1&limit=1000&offset=" + offset);
    n = page.n;
    for (const s of page.streams) { known.add(s.id); streams.set(s.id, { id: s.id, rows: s.rows, seen: s.seen, alarm: s.alarm ? s["alarm.channel"] || "" : null, trail: s.trail, dirty: true }); }
  }
  for (const id of streams.keys()) if (!known.has(id)) streams.delete(id);
  sort();
  const asked = named(location.hash);
  if (chosen === null && streams.has(asked)) choose(asked);
}

function takeAll(kind, event) {
  if (kind === "moved") {
    for (const [id, rows, seen, alarm, , points] of event) {
      let s = streams.get(id);
      if (!s) { s = { id, trail: [] }; streams.set(id, s); drawList = "sort"; }
      if ((s.alarm === null) !== (alarm === null)) drawList = "sort";
      s.rows = rows; s.seen = seen; s.alarm = alarm; s.dirty = true;
      s.trail = s.trail.concat(points).slice(-TRAIL);
    }
    drawList = drawList || true;
  } else if (kind === "deleted") { streams.delete(event.id); drawList = "sort"; if (chosen === event.id) leave(); }
  else if (kind === "created") { streams.set(event.id, { id: event.id, rows: 0, seen: null, alarm: null, trail: [], dirty: true }); drawList = "sort"; }
  else if (kind === "model") { model = event; if (chosen) choose(chosen); }
  else if (kind === "alarm" && event.id === chosen) readAlarms();
}

// The stream that an address names; none for an address that nobody can read, as people mistype and links are cut.
function named(hash) {
  try { return decodeURIComponent(hash.slice(1)); } catch { return ""; }
}

// -- the list ---------------------------------------------------------------------------------------------------------
function stateOf(s) {
  if (!s.rows) return "new";
  if (s.alarm !== null) return "alarm";
  if (s.trail.length && s.trail[s.trail.length - 1] === null) return "gap";
  return "normal";
}

function sort() {
  order = [...streams.values()].filter(s => s.id.includes(wanted) && (!onlyAlarms || s.alarm !== null));
  order.sort((a, b) => (a.alarm === null) - (b.alarm === null) || (a.id < b.id ? -1 : 1));
  $("space").style.height = order.length * HEIGHT + "px";
  for (const s of order) s.dirty = true;
  drawList = true;
}

const pool = [];
function rowOf(i) {
  if (pool[i]) return pool[i];
  const row = document.createElement("button"), text = document.createElement("span"), id = document.createElement("span"), what = document.createElement("span");
  row.type = "button"; row.className = "row"; row.setAttribute("role", "option"); id.className = "id"; what.className = "what";
  text.append(id, what);
  const canvas = document.createElement("canvas");
  row.append(text, canvas);
  row.addEventListener("click", () => choose(row.dataset.id));
  $("space").append(row);
  return pool[i] = { row, id, what, canvas, shows: null };
}

function showList() {
  const top = $("list").scrollTop, first = Math.max(0, Math.floor(top / HEIGHT) - 2);
  const n = Math.min(order.length - first, Math.ceil($("list").clientHeight / HEIGHT) + 4);
  for (let i = 0; i < Math.max(n, pool.length); i++) {
    const part = rowOf(i), s = i < n ? order[first + i] : null;
    part.row.hidden = !s;
    if (!s || (part.shows === s && !s.dirty && part.at === first + i && part.chosen === (s.id === chosen))) continue;
    const state = stateOf(s);
    part.row.dataset.id = s.id; part.row.dataset.state = state; part.row.style.top = (first + i) * HEIGHT + "px";
    part.row.setAttribute("aria-selected", String(s.id === chosen));
    part.id.textContent = s.id;
    part.what.textContent = state === "alarm" ? "ALARM" + (s.alarm ? ": " + s.alarm : "") : state === "gap" ? "gap: " + model.channels[0] : state === "new" ? "no row yet" : s.rows.toLocaleString() + " rows \u00b7 " + ago(s.seen);
    drawTrail(part.canvas, s.trail, state);
    part.shows = s; part.at = first + i; part.chosen = s.id === chosen; s.dirty = false;
  }
  let nAlarms = 0;
  for (const s of streams.values()) if (s.alarm !== null) nAlarms++;
  $("n-streams").textContent = streams.size.toLocaleString();
  $("n-alarms").textContent = nAlarms.toLocaleString();
  $("alarm-fact").classList.toggle("on", nAlarms > 0);
  $("empty").hidden = streams.size > 0;
}

function ago(seen) {
  if (!seen) return "never";
  const s = Date.now() / 1000 - seen;
  return s < 5 ? "now" : s < 90 ? Math.round(s) + " s ago" : s < 5400 ? Math.round(s / 60) + " min ago" : Math.round(s / 3600) + " h ago";
}

// -- one stream -------------------------------------------------------------------------------------------------------
async function choose(id) {
  if (detail) detail.stop.abort();
  chosen = id; zoomed = null; setPaused(false);
  history.replaceState(null, "", "#" + encodeURIComponent(id));
  const mine = detail = { id, stop: new AbortController(), rows: null, fan: null };
  $("detail").hidden = false; $("nothing").hidden = true; document.querySelector("main").classList.add("open");
  $("name").textContent = id; $("alarms").replaceChildren();
  for (const s of streams.values()) s.dirty = true;
  drawList = true;
  while (detail === mine) {
    try {
      const reading = listen("/v1/streams/" + encodeURIComponent(id) + "/events", mine.stop, (kind, event) => { if (detail === mine) takeOne(kind, event); });
      mine.rows = unpacked(await ask("/v1/streams/" + encodeURIComponent(id) + "/rows?last=" + MOST));
      if (detail !== mine) return;
      buildPlots(); readAlarms(); readForecast(mine);
      await reading;
    } catch (error) { if (mine.stop.signal.aborted) return; }
    await pause(2000);
  }
}

function leave() {
  if (detail) detail.stop.abort();
  detail = null; chosen = null;
  history.replaceState(null, "", "#");
  $("detail").hidden = true; $("nothing").hidden = false; document.querySelector("main").classList.remove("open");
  for (const s of streams.values()) s.dirty = true;
  drawList = true;
}

// Rows as columns; rows that were missed, by the times of the rows around them, are rows without observation.
function unpacked(told) {
  const rows = { next: told.first, row: [], seen: [], time: [], x: [], expected: [], std: [], likelihood: [], alarm: [], shift: 0 };
  append(rows, told);
  return rows;
}

function append(rows, told) {
  const n = model.channels.length;
  for (let i = 0; i < told.x.length; i++) {
    if (told.first + i < rows.next) continue;
    const missed = told.missed ? Math.min(told.missed[i], 200) : 0;
    for (let j = 0; j < missed; j++) push(rows, null, null, Array(n).fill(null), Array(n).fill(null), Array(n).fill(null), null, rows.alarm[rows.alarm.length - 1] || 0);
    const seen = Array.isArray(told.seen) ? told.seen[i] : told.seen;
    push(rows, seen, told.times && told.times[i], told.x[i], told.expected[i], told.std[i], told.log_likelihood[i], told.alarm[i]);
    rows.next = told.first + i + 1;
  }
  const over = rows.row.length - MOST;
  if (over > 0) for (const name of ["row", "seen", "time", "x", "expected", "std", "likelihood", "alarm"]) rows[name].splice(0, over);
}

function push(rows, seen, time, x, expected, std, likelihood, alarm) {
  const last = rows.row.length ? rows.row[rows.row.length - 1] : rows.next - 1;
  rows.row.push(last + 1); rows.seen.push(seen); rows.time.push(time); rows.x.push(x); rows.expected.push(expected); rows.std.push(std);
  rows.likelihood.push(likelihood === null || x.every(v => v === null) ? null : Math.max(likelihood, -1e6)); rows.alarm.push(alarm);
}

function takeOne(kind, event) {
  if (kind === "alarm") { readAlarms(); return; }
  if (kind !== "rows" || !detail.rows) return;
  append(detail.rows, event);
  drawDetail = true;
}

async function readForecast(mine) {
  while (detail === mine) {
    if (!paused && !document.hidden && mine.rows && mine.rows.row.length) {
      try {
        const steps = model.inputs.length ? model.window : FORECAST;
        const told = await ask("/v1/streams/" + encodeURIComponent(mine.id) + "/forecast?steps=" + steps);
        mine.fan = { ...told, from: mine.rows.row[mine.rows.row.length - 1] - (mine.rows.next - told.rows) };
        drawDetail = true;
      } catch (error) { /* the next one may come */ }
    }
    await pause(1000);
  }
}

async function readAlarms() {
  const mine = detail;
  if (!mine) return;
  try {
    const told = (await ask("/v1/streams/" + encodeURIComponent(mine.id) + "/alarms?limit=20")).alarms;
    if (detail !== mine) return;
    $("alarms").replaceChildren(...(told.length ? told.map(alarmLine) : [line("none", "none so far")]));
  } catch (error) { /* the next alarm reads again */ }
}

function line(kind, ...texts) {
  const li = document.createElement("li");
  li.className = kind;
  for (const text of texts) { const span = document.createElement("span"); span.textContent = text; li.append(span); }
  return li;
}

function alarmLine(alarm) {
  const when = new Date(alarm.began * 1000).toLocaleString(), how = alarm.ended ? "for " + (alarm.last === null ? "?" : alarm.last - alarm.row) + " rows" : "goes on";
  const nats = alarm.log_likelihood < -1e6 ? "below -1e6" : alarm.log_likelihood.toFixed(1);
  return line(alarm.ended ? "" : "open", when, "row " + alarm.row, alarm.channel || "", how, "log-likelihood " + nats);
}

function setPaused(value) { paused = value; $("pause").setAttribute("aria-pressed", String(value)); $("pause").textContent = value ? "Go on" : "Pause"; drawDetail = true; }

function picked() { return shown && shown.model === model.fingerprint ? shown.channels : (shown = { model: model.fingerprint, channels: model.channels.slice(0, mostShown) }).channels; }

function buildPlots() {
  readPalette();
  for (const plot of plots) plot.u.destroy();
  plots = [];
  const channels = picked();
  $("channels").replaceChildren(...model.channels.map(name => {
    const chip = document.createElement("button");
    chip.type = "button"; chip.textContent = name; chip.setAttribute("aria-pressed", String(channels.includes(name)));
    chip.addEventListener("click", () => {
      shown.channels = channels.includes(name) ? channels.filter(c => c !== name) : model.channels.filter(c => c === name || channels.includes(c));
      buildPlots();
    });
    return chip;
  }));
  $("plots").replaceChildren();
  const width = widthOfPlots(), height = window.innerWidth < 740 ? 150 : channels.length > 2 ? 150 : 190;
  for (const name of channels) {
    const c = model.channels.indexOf(name);
    addPlot(name, box => channelPlot(box, width, height, "psimlearn", zoom, () => shades(c)), view => channelData(view, c));
  }
  addPlot("log-likelihood", box => likelihoodPlot(box, width, 90, "psimlearn", zoom, () => shades(-1)), view => [view.row, view.likelihood]);
  drawDetail = true;
}

function widthOfPlots() { return Math.max($("detail").clientWidth - (window.innerWidth < 740 ? 24 : 40), 200); }

function addPlot(title, make, data) {
  const box = document.createElement("div"), head = document.createElement("h4"), out = document.createElement("output");
  box.className = "plot"; head.textContent = title; head.append(out); box.append(head);
  $("plots").append(box);
  const u = make(box);
  u.over.addEventListener("mousemove", () => { out.textContent = told(u); });
  u.over.addEventListener("mouseleave", () => { out.textContent = ""; });
  u.over.addEventListener("dblclick", unzoom);
  plots.push({ u, data });
}

function told(u) {
  const i = u.cursor.idx;
  if (i === null || i === undefined || !u.data[0].length) return "";
  const short = v => v === null || v === undefined ? "\u2013" : v.toPrecision(4);
  const row = u.data[0][i], at = detail.rows.row.indexOf(row), when = at >= 0 ? detail.rows.time[at] || (detail.rows.seen[at] ? new Date(detail.rows.seen[at] * 1000).toLocaleTimeString() : "") : "";
  if (u.data.length === 2) return "row " + row + "  " + when + "  " + short(u.data[1][i]);
  return u.data[5][i] !== null && u.data[2][i] === null ? "row " + row + "  forecast " + short(u.data[5][i]) : "row " + row + "  " + when + "  observed " + short(u.data[1][i]) + "  expected " + short(u.data[2][i]);
}

function zoom(u) {
  if (u.select.width < 3) return;
  zoomed = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  $("unzoom").hidden = false; drawDetail = true;
}

function unzoom() { zoomed = null; $("unzoom").hidden = true; drawDetail = true; }

let view = null;
function viewed() {
  const rows = detail.rows, from = Math.max(0, rows.row.length - Number($("span").value)), part = name => rows[name].slice(from);
  return { row: part("row"), x: part("x"), expected: part("expected"), std: part("std"), likelihood: part("likelihood"), alarm: part("alarm"), fan: paused && view ? view.fan : detail.fan };
}

function channelData(view, c) {
  const n = view.row.length, fan = view.fan, ahead = fan && n ? fan.mean.length : 0, last = n ? view.row[n - 1] : 0;
  const data = Array.from({ length: 8 }, () => Array(n + ahead).fill(null));
  const multiple = model.band ? model.band[c] : null;
  for (let i = 0; i < n; i++) {
    const m = view.expected[i][c], s = view.std[i][c];
    data[0][i] = view.row[i]; data[1][i] = view.x[i][c]; data[2][i] = m;
    if (m !== null && s !== null && multiple !== null) { data[3][i] = m + multiple * s; data[4][i] = m - multiple * s; }
  }
  for (let j = 0; j < ahead; j++) {
    const k = n + j, at = last + j - fan.from;  // rows may have come since the forecast, or be on their way
    data[0][k] = last + 1 + j;
    if (at >= 0 && at < ahead) { data[5][k] = fan.mean[at][c]; if (fan.high) { data[6][k] = fan.high[at][c]; data[7][k] = fan.low[at][c]; } }
  }
  return data;
}

function shades(c) {
  if (!view) return [];
  const out = stretches(view.alarm).map(([a, b]) => [view.row[a] - 0.5, view.row[b - 1] + 0.5, palette["alarm-fill"]]);
  const missing = view.x.map(x => c < 0 ? x.every(v => v === null) : x[c] === null);
  return stretches(missing).map(([a, b]) => [view.row[a] - 0.5, view.row[b - 1] + 0.5, palette["gap-fill"]]).concat(out);
}

function showDetail() {
  if (!detail || !detail.rows || !plots.length) return;
  const s = streams.get(chosen), state = s ? stateOf(s) : "new";
  $("state").textContent = state === "alarm" ? "ALARM" + (s.alarm ? ": " + s.alarm : "") : state === "gap" ? "gap: " + model.channels[0] : state;
  $("state").dataset.state = state;
  $("facts").textContent = detail.rows.next.toLocaleString() + " rows, the last " + ago(s && s.seen) + (paused ? " \u00b7 paused: rows go on coming in" : "");
  if (!paused || !view) view = viewed();
  for (const plot of plots) {
    const data = plot.data(view), x = data[0];
    plot.u.setData(data, false);
    if (!x.length) continue;
    const [min, max] = zoomed || [x[0], plot.u.series.length > 2 ? x[x.length - 1] : x[x.length - 1] + (view.fan ? view.fan.mean.length : 0)];
    plot.u.setScale("x", { min, max: Math.max(max, min + 1) });
  }
}

// -- drawing, at most once a frame ------------------------------------------------------------------------------------
let lastDetail = 0;
function frame(now) {
  if (drawList === "sort") sort();
  if (drawList) { drawList = false; showList(); }
  if (drawDetail && now - lastDetail > 66) { drawDetail = false; lastDetail = now; showDetail(); }
  requestAnimationFrame(frame);
}

let enter = null;
function entered() { return new Promise(done => { enter = done; }); }
$("login").addEventListener("submit", event => {
  event.preventDefault();
  sessionStorage.setItem("psimlearn-token", $("token").value.trim());
  $("login-error").textContent = "";
  if (enter) enter();
});
$("origin").textContent = location.origin;
$("list").addEventListener("scroll", () => { drawList = drawList || true; });
$("search").addEventListener("input", () => { wanted = $("search").value.trim(); $("list").scrollTop = 0; sort(); });
$("only-alarms").addEventListener("click", () => { onlyAlarms = !onlyAlarms; $("only-alarms").setAttribute("aria-pressed", String(onlyAlarms)); $("list").scrollTop = 0; sort(); });
$("pause").addEventListener("click", () => setPaused(!paused));
$("unzoom").addEventListener("click", unzoom);
$("back").addEventListener("click", leave);
$("span").addEventListener("change", () => { unzoom(); if (paused) { view = viewed(); } });
window.addEventListener("resize", () => { drawList = true; for (const plot of plots) plot.u.setSize({ width: widthOfPlots(), height: plot.u.height }); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readPalette(); for (const s of streams.values()) s.dirty = true; drawList = true; if (detail && detail.rows) buildPlots(); });
setInterval(() => { for (const s of order) s.dirty = true; drawList = drawList || true; drawDetail = true; }, 5000);
readPalette();
requestAnimationFrame(frame);
followAll();
