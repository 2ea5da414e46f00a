// Drawings: the small curve of a stream, and the large plots of one stream.
"use strict";

function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }

let palette = {};
function readPalette() {
  for (const name of ["ink", "faint", "edge", "ours", "seen", "band", "fan", "fan-fill", "alarm", "alarm-fill", "gap", "gap-fill"])
    palette[name] = colour(name);
}

// The last points of a stream; a point that is missing leaves a hole.
function drawTrail(canvas, points, state) {
  const ratio = window.devicePixelRatio || 1, width = 110, height = 36;
  if (canvas.width !== width * ratio) { canvas.width = width * ratio; canvas.height = height * ratio; }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  let low = Infinity, high = -Infinity;
  for (const v of points) if (v !== null) { if (v < low) low = v; if (v > high) high = v; }
  if (low > high) return;
  const scale = high > low ? (height - 6) / (high - low) : 0, step = width / 47;
  c.strokeStyle = state === "alarm" ? palette.alarm : palette.ours;
  c.lineWidth = 1.3;
  c.beginPath();
  let pen = false;
  points.forEach((v, i) => {
    if (v === null) { pen = false; return; }
    const x = (i + 48 - points.length) * step, y = scale ? height - 3 - (v - low) * scale : height / 2;
    if (pen) c.lineTo(x, y); else { c.moveTo(x, y); c.lineTo(x + 0.5, y); }
    pen = true;
  });
  c.stroke();
}

// Stretches of equal truth in a list, as pairs [from, to) of places.
function stretches(flags) {
  const found = [];
  let begin = -1;
  for (let i = 0; i <= flags.length; i++) {
    if (flags[i] && begin < 0) begin = i;
    if (!flags[i] && begin >= 0) { found.push([begin, i]); begin = -1; }
  }
  return found;
}

function shading(shades) {
  // shades(u): a list of [from, to, colour] on the x axis, drawn below everything else
  return { hooks: { drawClear: u => {
    const c = u.ctx, { top, height, left, width } = u.bbox;
    c.save();
    c.beginPath(); c.rect(left, top, width, height); c.clip();
    for (const [from, to, fill] of shades()) {
      const a = u.valToPos(from, "x", true), b = u.valToPos(to, "x", true);
      c.fillStyle = fill; c.fillRect(a, top, Math.max(b - a, 2), height);
    }
    c.restore();
  } } };
}

function axes(height) {
  const plain = { stroke: palette.faint, grid: { stroke: palette.edge, width: 1 }, ticks: { stroke: palette.edge, width: 1 }, font: "11px system-ui, sans-serif" };
  return [{ ...plain, size: 28, values: (u, ticks) => ticks.map(t => Number.isInteger(t) ? String(t) : "") }, { ...plain, size: 52, space: height > 120 ? 35 : 20 }];
}

// One channel: observations, expectation with its band, forecast fan, gaps and alarms.
function channelPlot(where, width, height, sync, onZoom, shades) {
  const none = { points: { show: false } };
  return new uPlot({
    width, height, legend: { show: false }, axes: axes(height), scales: { x: { time: false } },
    cursor: { sync: { key: sync }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    series: [{}, 
      { stroke: palette.seen, width: 1, points: { show: true, size: 4, fill: palette.seen, stroke: palette.seen }, spanGaps: false, paths: () => null },
      { stroke: palette.ours, width: 1.8, ...none, spanGaps: false },
      { stroke: "transparent", ...none }, { stroke: "transparent", ...none },
      { stroke: palette.fan, width: 1.8, dash: [6, 4], ...none },
      { stroke: "transparent", ...none }, { stroke: "transparent", ...none }],
    bands: [{ series: [3, 4], fill: palette.band }, { series: [6, 7], fill: palette["fan-fill"] }],
    hooks: { setSelect: [onZoom] }, plugins: [shading(shades)],
  }, [[0], [null], [null], [null], [null], [null], [null], [null]], where);
}

function likelihoodPlot(where, width, height, sync, onZoom, shades) {
  return new uPlot({
    width, height, legend: { show: false }, axes: axes(height), scales: { x: { time: false } },
    cursor: { sync: { key: sync }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    series: [{}, { stroke: palette.fan, width: 1.2, points: { show: false }, spanGaps: false }],
    hooks: { setSelect: [onZoom] }, plugins: [shading(shades)],
  }, [[0], [null]], where);
}
