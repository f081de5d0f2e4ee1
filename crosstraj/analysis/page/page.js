"use strict";
// Everything from the run is in DATA and reaches the page as text (textContent), never as markup.
const DATA = JSON.parse(document.getElementById("data").textContent);
const VIEWS = DATA.views;
const COUNT = VIEWS.unseen.length;
// Safe for colour-blind readers; with six shapes, 42 kinds.
const COLOURS = DATA.colours;
const SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"];
const GLYPHS = ["●", "■", "▲", "◆", "✚", "▼"];
const NONE = "#b9bfc6";
const LISTED = 15;
const SAMPLES = 8;
const LEVELS = 8;  // levels that a cluster is shown in
// What stands for a level: "level", or "episode" where an environment has no levels.
const LEVEL = DATA.groupName;

const THUMBS = 14;  // clusters with a picture on the map
const THUMB = 38;  // pixels of it

const state = { moment: DATA.moments.length - 1, colour: DATA.clustered ? "cluster" : "action",
                cluster: null, view: null, timer: null };
const byId = (id) => document.getElementById(id);

function element(kind, text, className) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function button(text, press) {
  const made = element("button", text);
  made.type = "button";
  made.addEventListener("click", press);
  return made;
}

function shown(value, digits = 2) {
  return value === null || value === undefined ? "NaN" : value.toFixed(digits);
}

const now = () => DATA.moments[state.moment];
const clusterOf = (view) => (now().cluster === null ? -1 : now().cluster[view]);
const splitOf = (view) => (VIEWS.unseen[view] ? "unseen" : "seen");
const levelsOf = (cluster) => now().levels[cluster] || [0, 0];  // spanned, and if permuted
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const actionsOf = (view) => VIEWS.action[view].map((a) => DATA.actions[a]).join(" ");

function members(cluster) {
  const found = [];
  for (let view = 0; view < COUNT; view += 1) if (clusterOf(view) === cluster) found.push(view);
  return found;
}

// Evenly spaced over the list: from as many trajectories as may be.
function spread(list, count) {
  if (list.length <= count) return list;
  return Array.from({ length: count },
    (_, k) => list[Math.round((k * (list.length - 1)) / (count - 1))]);
}

// The middle view of each of up to `count` levels, which are spread over all of the list's; those
// seen in training come first.
function onePerLevel(list, count) {
  const byLevel = new Map();
  for (const view of list) {
    if (!byLevel.has(VIEWS.group[view])) byLevel.set(VIEWS.group[view], []);
    byLevel.get(VIEWS.group[view]).push(view);
  }
  const ordered = [...byLevel].sort((a, b) => a[0] - b[0]);
  return spread(ordered, count).map(([, views]) => views[Math.floor(views.length / 2)]);
}

function follows(view) {
  return view + 1 < COUNT && VIEWS.trajectory[view + 1] === VIEWS.trajectory[view]
    && VIEWS.window[view + 1] === VIEWS.window[view] + 1;
}

// --- Frames: tiles of the sprite sheets

function tile(view, number, size) {
  const t = DATA.tiles;
  const index = view * t.perView + number;
  const sheet = Math.floor(index / t.perSheet);
  const within = index % t.perSheet;
  const tiles = Math.min(t.perSheet, COUNT * t.perView - sheet * t.perSheet);
  const scale = size / Math.max(t.width, t.height);
  const made = element("div", undefined, `tile sheet${sheet}`);
  const [w, h] = [t.width * scale, t.height * scale];
  made.style.width = `${w}px`;
  made.style.height = `${h}px`;
  made.style.backgroundSize = `${t.columns * w}px ${Math.ceil(tiles / t.columns) * h}px`;
  made.style.backgroundPosition =
    `${-(within % t.columns) * w}px ${-Math.floor(within / t.columns) * h}px`;
  return made;
}

function framesOf(view, size) {
  const t = DATA.tiles;
  const row = element("div", undefined, "frames");
  for (let number = 0; number < t.perView; number += 1) {
    const point = t.perView === 1 ? 0 : Math.round((number * (t.keypoints - 1)) / (t.perView - 1));
    const figure = element("figure", undefined, "frame");
    figure.append(tile(view, number, size));
    figure.append(element("figcaption", DATA.actions[VIEWS.action[view][point]]));
    row.append(figure);
  }
  row.setAttribute("role", "img");
  row.setAttribute("aria-label", `frames of view ${view}, actions ${actionsOf(view)}`);
  return row;
}

// --- Kinds and colours

function kindOf(view, by) {
  if (by === "cluster") return clusterOf(view);
  if (by === "level") return VIEWS.group[view];
  if (by === "action") return VIEWS.action[view][0];
  return VIEWS.unseen[view];
}

function kindName(kind, by) {
  if (by === "action") return DATA.actions[kind];
  if (by === "split") return kind ? "unseen" : "seen";
  if (kind < 0) return "none";
  return `${by === "level" ? LEVEL : by} ${kind}`;
}

// [[kind, how many], ...], the most frequent first
function kinds(by) {
  const counts = new Map();
  for (let view = 0; view < COUNT; view += 1) {
    const kind = kindOf(view, by);
    counts.set(kind, (counts.get(kind) || 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}

// A kind's place in the palette: its own number for clusters and actions, so that it stays the same
// over snapshots; its rank for levels, whose numbers are far apart.
function places(by) {
  if (by !== "level") return (kind) => kind;
  const ordered = [...new Set(VIEWS.group)].sort((a, b) => a - b);
  const rank = new Map(ordered.map((level, place) => [level, place]));
  return (kind) => rank.get(kind);
}

const dark = () => window.matchMedia("(prefers-color-scheme: dark)").matches;
const visible = (colour) => (colour === "#000000" && dark() ? "#ffffff" : colour);
const colourAt = (place) => (place < 0 ? NONE : visible(COLOURS[place % COLOURS.length]));
const shapeAt = (place) => (place < 0 ? 0 : Math.floor(place / COLOURS.length) % SHAPES.length);

function marker() {
  const by = state.colour;
  const looks = { size: 7, line: { width: 0 }, opacity: dimmed() };
  if (by === "value" || by === "return") {
    return Object.assign(looks, {
      color: VIEWS[by].map((value) => (value === null ? NONE : value)),
      colorscale: "Cividis", showscale: true, symbol: "circle",
      colorbar: { thickness: 12, len: 0.9, y: 0.45,  // below the buttons
                  title: { text: by === "value" ? "value" : "return-to-go", side: "right" } },
    });
  }
  const place = places(by);
  const all = Array.from({ length: COUNT }, (_, view) => place(kindOf(view, by)));
  return Object.assign(looks, {
    color: all.map(colourAt), symbol: all.map((p) => SHAPES[shapeAt(p)]), showscale: false,
  });
}

function dimmed() {
  if (state.cluster === null) return 0.75;
  return Array.from({ length: COUNT }, (_, view) => (clusterOf(view) === state.cluster ? 0.95 : 0.28));
}

function drawLegend() {
  const legend = byId("legend");
  legend.replaceChildren();
  const by = state.colour;
  if (by === "value" || by === "return") {
    if (VIEWS[by].includes(null)) legend.append(element("span", "grey: NaN"));
    return;
  }
  const all = kinds(by);
  const place = places(by);
  if (by === "level") legend.append(element("span", levelLegend(all.length)));
  if (by === "level" && all.length > LISTED) return;  // a list of so many says nothing
  for (const [kind, count] of all.slice(0, LISTED)) {
    const text = `${kindName(kind, by)} (${count})`;
    const pressable = by === "cluster" && kind >= 0;
    const item = pressable ? button("", () => select(kind)) : element("span");
    const swatch = element("span", GLYPHS[shapeAt(place(kind))], "swatch");
    swatch.style.color = colourAt(place(kind));
    item.append(swatch, document.createTextNode(text));
    legend.append(item);
  }
  if (all.length > LISTED) legend.append(element("span", `and ${all.length - LISTED} more`));
}

function levelLegend(count) {
  const looks = COLOURS.length * SHAPES.length;
  const unseen = new Set(VIEWS.group.filter((_, view) => VIEWS.unseen[view])).size;
  return `${plural(count, LEVEL)}, ${count - unseen} of them seen in training`
    + (count > looks ? `; ${looks} colours and shapes, which repeat` : "");
}

// --- The map

// The page's own colours, light or dark, for what the library draws.
function themed(layout) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line") };
  return { ...layout, paper_bgcolor: colour("--paper"), plot_bgcolor: colour("--paper"),
           font: { ...layout.font, color: colour("--ink") },
           xaxis: { ...axis, ...layout.xaxis }, yaxis: { ...axis, ...layout.yaxis } };
}

// Nothing leaves the page: the library's own button would upload the chart.
const PLOT = { displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "",
               modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toImage"] };

function range(values) {
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const margin = 0.04 * (high - low) || 1;
  return known.length ? [low - margin, high + margin] : [-1, 1];
}

function drawMap() {
  const axis = { showgrid: false, zeroline: false, showticklabels: false };
  const points = { type: "scatter", mode: "markers", x: now().x, y: now().y, hoverinfo: "none",
                   marker: marker() };
  const layout = {
    margin: { l: 8, r: 8, t: 8, b: 8 }, showlegend: false, hovermode: "closest", dragmode: "pan",
    xaxis: { ...axis, range: range(now().x) }, yaxis: { ...axis, range: range(now().y) },
    uirevision: state.moment,
  };
  return Plotly.react("map", [points], themed(layout), PLOT);
}

// The member of a cluster that lies nearest to the middle of all of them.
function middleOf(own) {
  const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
  const placed = own.filter((view) => now().x[view] !== null);
  if (!placed.length) return null;
  const [x, y] = [median(placed.map((v) => now().x[v])), median(placed.map((v) => now().y[v]))];
  const far = (v) => (now().x[v] - x) ** 2 + (now().y[v] - y) ** 2;
  return placed.reduce((best, view) => (far(view) < far(best) ? view : best));
}

// A frame on the map for each of the largest clusters, as far as they do not cover each other.
function drawThumbs() {
  const place = byId("thumbs");
  place.replaceChildren();
  const map = byId("map");
  const layout = map._fullLayout;
  if (!DATA.clustered || !layout || !layout.xaxis.l2p) return;
  const taken = [];
  for (const [cluster] of kinds("cluster").filter(([kind]) => kind >= 0)) {
    if (taken.length === THUMBS) break;
    const view = middleOf(members(cluster));
    if (view === null) continue;
    const x = layout._size.l + layout.xaxis.l2p(now().x[view]);
    const y = layout._size.t + layout.yaxis.l2p(now().y[view]);
    const inside = x > THUMB && y > THUMB && x < map.offsetWidth - THUMB && y < map.offsetHeight - THUMB;
    if (!inside || taken.some(([a, b]) => Math.abs(a - x) < THUMB + 8 && Math.abs(b - y) < THUMB + 8)) {
      continue;
    }
    taken.push([x, y]);
    const picture = tile(view, 0, THUMB);
    picture.style.left = `${map.offsetLeft + x - THUMB / 2}px`;
    picture.style.top = `${map.offsetTop + y - THUMB / 2}px`;
    if (state.cluster !== null && state.cluster !== cluster) picture.style.opacity = "0.6";
    place.append(picture);
  }
}

function redraw() {
  drawMap();
  drawThumbs();
  drawLegend();
}

// --- A view: the card beside its point

function showView(view) {
  state.view = view;
  const card = byId("card");
  card.replaceChildren(framesOf(view, DATA.tiles.perView > 2 ? 84 : 112));
  const facts = element("dl");
  const length = VIEWS.length[view] < 0 ? "?" : VIEWS.length[view];
  const entries = [["view", String(view)], [LEVEL, `${VIEWS.group[view]} (${splitOf(view)})`],
    ["steps", `${VIEWS.step[view].join(", ")} of ${length}`], ["actions", actionsOf(view)],
    ["value", shown(VIEWS.value[view])], ["return-to-go", shown(VIEWS.return[view])]];
  if (DATA.clustered) {
    entries.unshift(["cluster", clusterOf(view) < 0 ? "none" : String(clusterOf(view))]);
  }
  for (const [name, text] of entries) facts.append(element("dt", name), element("dd", text));
  card.append(facts);
  card.hidden = false;
  card.dataset.view = String(view);
  placeCard(view);
}

// The card beside the point, and a ring around it: elements over the plot, which is not redrawn.
function placeCard(view) {
  const card = byId("card");
  const map = byId("map");
  const ring = byId("ring");
  ring.hidden = now().x[view] === null;
  if (ring.hidden) return;
  const layout = map._fullLayout;
  const x = map.offsetLeft + layout._size.l + layout.xaxis.l2p(now().x[view]);
  const y = map.offsetTop + layout._size.t + layout.yaxis.l2p(now().y[view]);
  ring.style.left = `${x - 10}px`;
  ring.style.top = `${y - 10}px`;
  if (getComputedStyle(card).position === "static") return;
  const [width, height] = [card.offsetWidth, card.offsetHeight];
  const left = x + 16 + width < map.offsetLeft + map.offsetWidth ? x + 16 : x - width - 16;
  const top = Math.min(Math.max(y - height / 2, map.offsetTop + 4),
    map.offsetTop + map.offsetHeight - height - 4);
  card.style.left = `${Math.max(0, left)}px`;
  card.style.top = `${Math.max(0, top)}px`;
}

function hideView() {
  state.view = null;
  byId("card").hidden = byId("ring").hidden = true;
}

// --- A cluster: the panel

function select(cluster) {
  state.cluster = cluster === null || cluster < 0 ? null : cluster;
  byId("pick").value = state.cluster === null ? "" : String(state.cluster);
  Plotly.restyle("map", { "marker.opacity": [dimmed()] }, [0]);
  drawThumbs();
  drawPanel();
}

function chips(title, list) {
  const row = element("div", undefined, "chips");
  for (const [cluster, text] of list) row.append(button(text, () => select(cluster)));
  if (!list.length) row.append(element("span", "none"));
  return [element("h3", title), row];
}

function drawPanel() {
  const panel = byId("panel");
  panel.replaceChildren();
  if (!DATA.clustered) {
    panel.append(element("h2", "No clusters"),
      element("p", "This method has no prototypes: its features are shown. "
        + "crosstraj explore with --kmeans K makes K clusters of them."));
    return;
  }
  if (state.cluster === null) {
    panel.append(element("h2", "No cluster selected"),
      element("p", "Click a point, or choose a cluster above: the levels it spans, its sample "
        + "states, its neighbours and where it sits in time appear here."));
    drawWidest(panel);
    return;
  }
  const own = members(state.cluster);
  panel.append(element("h2", `Cluster ${state.cluster}`));
  const unseen = own.filter((view) => VIEWS.unseen[view]).length;
  const [levels, permuted] = levelsOf(state.cluster);
  panel.append(element("p", `${plural(own.length, "view")} of ${plural(levels, LEVEL)} (dealt at `
    + `random: about ${shown(permuted, 1)}); ${own.length - unseen} of seen ${LEVEL}s, `
    + `${unseen} of unseen ones`));
  if (!own.length) return;
  drawLevels(panel, own);
  panel.append(element("h3", "Sample states, with the actions taken"));
  const samples = element("div", undefined, "samples");
  for (const view of spread(own, SAMPLES)) {
    const sample = element("div", undefined, "sample");
    sample.append(framesOf(view, DATA.tiles.perView > 2 ? 60 : 68));
    sample.dataset.view = String(view);
    samples.append(sample);
  }
  panel.append(samples);
  const near = now().neighbours[state.cluster] || [];
  panel.append(...chips("Nearest clusters (cosine)",
    near.map(([cluster, cosine]) => [cluster, `${cluster} (${shown(cosine)})`])));
  panel.append(...chips("What follows", following(own)));
  panel.append(element("h3", "Where it sits in time"));
  const when = element("div");
  when.id = "when";
  panel.append(when);
  drawWhen(own);
}

// One frame from each of several levels: is what they share the situation, or the background?
function drawLevels(panel, own) {
  panel.append(element("h3", `The same cluster in different ${LEVEL}s`));
  const row = element("div", undefined, "levels");
  for (const view of onePerLevel(own, LEVELS)) {
    const figure = element("figure", undefined, `frame level ${splitOf(view)}`);
    figure.append(tile(view, 0, 74));
    figure.append(element("figcaption", `${VIEWS.group[view]}`),
      element("figcaption", splitOf(view), "split"));
    figure.dataset.view = String(view);
    figure.setAttribute("role", "img");
    figure.setAttribute("aria-label", `frame of view ${view}, ${LEVEL} ${VIEWS.group[view]}, `
      + splitOf(view));
    row.append(figure);
  }
  panel.append(row);
}

// Clusters in the order of the levels they span: situations are at the top, if there are any.
function byLevels() {
  return kinds("cluster").filter(([cluster]) => cluster >= 0)
    .sort((a, b) => levelsOf(b[0])[0] - levelsOf(a[0])[0]);
}

// The page's headline number: what it is, and what it would be by chance.
function drawHeadline() {
  byId("headline").textContent = DATA.clustered ? headline(byLevels()) : "";
}

function headline(all) {
  const views = all.reduce((sum, [, count]) => sum + count, 0);
  if (!views) return "";
  // Over views, not clusters: one of two views can span no more than two levels.
  const mean = (place) => all.reduce(
    (sum, [cluster, count]) => sum + count * levelsOf(cluster)[place], 0) / views;
  const total = plural(new Set(VIEWS.group).size, LEVEL);
  return `The views are of ${total}; the cluster of a view spans on average `
    + `${shown(mean(0), 1)} of them. Views that are dealt to the clusters at random would span `
    + `about ${shown(mean(1), 1)}. Near that number, clusters recognise situations, whatever the `
    + `${LEVEL}; far below it, they recognise ${LEVEL}s.`;
}

function drawWidest(panel) {
  const all = byLevels();
  if (!all.length) return;
  const listed = all.slice(0, LISTED).map(([cluster]) => [cluster, ...levelsOf(cluster)]);
  panel.append(...chips(`Clusters that span most: ${LEVEL}s (dealt at random)`, listed.map(
    ([cluster, levels, permuted]) => [cluster, `${cluster}: ${levels} (${shown(permuted, 1)})`])));
}

function following(own) {
  const counts = new Map();
  let total = 0;
  for (const view of own) {
    if (follows(view) && clusterOf(view + 1) >= 0) {
      const next = clusterOf(view + 1);
      counts.set(next, (counts.get(next) || 0) + 1);
      total += 1;
    }
  }
  return [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 5)
    .map(([next, count]) => [next, `${next === state.cluster ? "itself" : next} `
      + `(${Math.round((100 * count) / total)} %)`]);
}

// The share of the views at each time of an episode that are in this cluster.
function drawWhen(own) {
  const last = Math.max(...VIEWS.step.map((steps) => steps[0]));
  const bins = Math.min(25, last + 1);
  const binOf = (view) => Math.min(bins - 1, Math.floor((VIEWS.step[view][0] * bins) / (last + 1)));
  const [all, mine] = [new Array(bins).fill(0), new Array(bins).fill(0)];
  for (let view = 0; view < COUNT; view += 1) all[binOf(view)] += 1;
  for (const view of own) mine[binOf(view)] += 1;
  const width = (last + 1) / bins;
  Plotly.newPlot("when", [{
    type: "bar", x: mine.map((_, bin) => (bin + 0.5) * width), width,
    y: mine.map((count, bin) => (all[bin] ? (100 * count) / all[bin] : 0)), customdata: mine,
    marker: { color: COLOURS[0] }, hovertemplate: "step %{x:.0f}: %{customdata} views, %{y:.1f} %<extra></extra>",
  }], themed({
    margin: { l: 38, r: 6, t: 4, b: 34 }, bargap: 0, font: { size: 11 },
    xaxis: { title: { text: "step of the episode", standoff: 4 } },
    yaxis: { title: { text: "% of views" }, rangemode: "tozero" },
  }), { ...PLOT, displayModeBar: false });
}

// --- Snapshots and curves

function setMoment(index) {
  state.moment = Math.max(0, Math.min(DATA.moments.length - 1, index));
  byId("moment").value = String(state.moment);
  const silhouette = DATA.clustered ? `, silhouette ${shown(now().silhouette)}` : "";
  byId("moment-label").textContent = `${now().frames.toLocaleString("en")} frames${silhouette}`;
  byId("moment").setAttribute("aria-valuetext", byId("moment-label").textContent);
  fillPick();
  redraw();
  drawHeadline();
  drawPanel();
  if (state.view !== null) showView(state.view);
  markCurves();
}

function fillPick() {
  const pick = byId("pick");
  pick.replaceChildren();
  const none = element("option", "all");
  none.value = "";
  pick.append(none);
  for (const [cluster, count] of byLevels()) {
    const levels = plural(levelsOf(cluster)[0], LEVEL);
    const option = element("option", `${cluster} (${plural(count, "view")}, ${levels})`);
    option.value = String(cluster);
    pick.append(option);
  }
  if (state.cluster !== null && !members(state.cluster).length) {
    const option = element("option", `${state.cluster} (0 views)`);
    option.value = String(state.cluster);
    pick.append(option);
  }
  pick.value = state.cluster === null ? "" : String(state.cluster);
}

function drawCurves() {
  const dashes = ["solid", "dash", "dot", "dashdot", "longdash"];
  DATA.curves.forEach((_, index) => {  // all places first: their number decides their width
    const place = element("div", undefined, "curve");
    place.id = `curve${index}`;
    byId("curves").append(place);
  });
  DATA.curves.forEach((curve, index) => {
    Plotly.newPlot(`curve${index}`, curve.lines.map((line, k) => ({
      x: line.x, y: line.y, name: line.name, mode: line.chance ? "lines" : "lines+markers",
      line: line.chance ? { color: "#8b949e", dash: "4px 4px", width: 1.5 }
        : { color: COLOURS[k], dash: dashes[k] },
      marker: { size: 5 },
    })), themed({
      title: { text: curve.title, font: { size: 13 }, x: 0.04, xanchor: "left", y: 0.97,
               yanchor: "top" },
      margin: { l: 44, r: 12, t: curve.legend ? 46 : 28, b: 34 },
      font: { size: 11 }, showlegend: curve.legend,
      legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0, font: { size: 10 } },
      xaxis: { title: { text: "frames", standoff: 4 } },
      yaxis: { automargin: true, range: axisOf(curve) },
    }), { ...PLOT, displayModeBar: false });
  });
}

// Over the figure's usual scale, and from zero but for lines that are to be told apart: an axis
// must not make much of noise.
function axisOf(curve) {
  const values = curve.lines.flatMap((line) => line.y).concat(curve.least, curve.zero ? [0] : [])
    .filter((value) => value !== null);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const margin = Math.max(0.06 * (high - low || 1), curve.zero ? 0 : 0.1);
  return [low < 0 || !curve.zero ? low - margin : low, high + margin];
}

// A pale band where the figure is healthy; none where nothing is known of it.
function healthyBand(curve) {
  const [low, high] = axisOf(curve);
  const [from, to] = curve.healthy;
  if (from === null && to === null) return [];
  return [{ type: "rect", xref: "paper", x0: 0, x1: 1, y0: Math.max(low, from ?? low),
            y1: Math.min(high, to ?? high), fillcolor: "rgba(0, 158, 115, .12)",
            line: { width: 0 }, layer: "below" }];
}

function markCurves() {
  const line = { type: "line", xref: "x", yref: "paper", x0: now().frames, x1: now().frames, y0: 0,
                 y1: 1, line: { color: "#5a6470", width: 1.5, dash: "dot" } };
  DATA.curves.forEach((curve, index) =>
    Plotly.relayout(`curve${index}`, { shapes: [line, ...healthyBand(curve)] }));
}

function stop() {
  clearInterval(state.timer);
  state.timer = null;
  byId("play").textContent = "play";
  byId("play").setAttribute("aria-pressed", "false");
}

function play() {
  if (state.timer !== null) return stop();
  if (state.moment === DATA.moments.length - 1) setMoment(0);
  byId("play").textContent = "stop";
  byId("play").setAttribute("aria-pressed", "true");
  state.timer = setInterval(() => {
    setMoment(state.moment + 1);
    if (state.moment === DATA.moments.length - 1) stop();
  }, 1200);
}

// --- Keyboard

function step(by) {
  const view = state.view === null ? 0 : (state.view + by + COUNT) % COUNT;
  showView(view);
}

function stepInCluster(by) {
  if (state.view === null) return showView(0);
  const own = DATA.clustered ? members(clusterOf(state.view)) : [state.view];
  showView(own[(own.indexOf(state.view) + by + own.length) % own.length]);
}

const KEYS = {
  ArrowRight: () => step(1), ArrowLeft: () => step(-1),
  ArrowDown: () => stepInCluster(1), ArrowUp: () => stepInCluster(-1),
  Enter: () => state.view !== null && select(clusterOf(state.view)),
  Escape: () => { hideView(); select(null); },
  ",": () => setMoment(state.moment - 1), ".": () => setMoment(state.moment + 1),
};

// --- Begin

byId("title").textContent = DATA.title;
byId("subtitle").textContent = DATA.subtitle;
for (const note of DATA.notes) byId("notes").append(element("li", note));
if (!DATA.clustered) {
  byId("colour").querySelector("option[value=cluster]").remove();
  byId("pick-label").hidden = true;
}
byId("colour").querySelector("option[value=level]").textContent = LEVEL;
byId("colour").value = state.colour;
byId("colour").addEventListener("change", (event) => { state.colour = event.target.value; redraw(); });
byId("pick").addEventListener("change",
  (event) => select(event.target.value === "" ? null : Number(event.target.value)));
byId("moment").max = String(DATA.moments.length - 1);
byId("moment").addEventListener("input", (event) => { stop(); setMoment(Number(event.target.value)); });
byId("play").addEventListener("click", play);
if (DATA.moments.length < 2) byId("play").disabled = byId("moment").disabled = true;
byId("map").addEventListener("keydown", (event) => {
  const press = KEYS[event.key];
  if (press && event.target === byId("map")) { event.preventDefault(); press(); }
});
drawCurves();
setMoment(state.moment);
if (DATA.clustered) {  // the largest cluster, not an empty panel
  const largest = kinds("cluster").find(([kind]) => kind >= 0);
  if (largest) select(largest[0]);
}
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  byId("curves").replaceChildren();
  drawCurves();
  setMoment(state.moment);
});
byId("map").on("plotly_hover", (event) => showView(event.points[0].pointIndex));
byId("map").on("plotly_unhover", hideView);
byId("map").on("plotly_click", (event) => select(clusterOf(event.points[0].pointIndex)));
byId("map").on("plotly_relayout", () => {
  drawThumbs();
  if (state.view !== null) placeCard(state.view);
});
window.addEventListener("resize", () => setTimeout(drawThumbs, 200));
document.body.dataset.ready = "true";
