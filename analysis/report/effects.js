// Draws the first chart, which has a line for each cell.

const MOST_OPEN = 40; // with more lines, the lines of a workload are folded
const ENDS = 15; // number of groups shown at each end if there are too many
const TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500];
const TICK_SHARE = 7; // least distance between ticks, in percent of the axis
const MOST_MARKS = 6; // largest number of marks on one line
const LINE_PX = 18;
const PANELS = [
  ["closed", "Limited number of sizes"],
  ["open", "Always new sizes (open loops)"],
];

// Returns the position of a ratio, in percent of the width. The scale is linear near 1.
function scaleOf(rows) {
  const unit = Math.log1p(Math.max(report.min_effect, 0.01));
  const bent = (ratio) => Math.asinh(Math.log(ratio) / unit);
  const ratios = rows.map((row) => row.ratio).filter((ratio) => ratio > 0);
  const [low, high] = [Math.min(Math.exp(-2 * unit), ...ratios), Math.max(Math.exp(2 * unit), ...ratios)].map(bent);
  return (ratio) => 3 + (94 * (bent(ratio) - low)) / (high - low);
}

const share = (percent) => `${Math.min(100, Math.max(0, percent)).toFixed(2)}%`;

function ground(scale) {
  const [low, high] = [1 / (1 + report.min_effect), 1 + report.min_effect].map(scale);
  return [
    svg("rect", { class: "band", x: share(low), width: share(high - low), height: "100%" }),
    svg("line", { class: "one", x1: share(scale(1)), x2: share(scale(1)), y2: "100%" }),
  ];
}

function axisOf(scale) {
  const made = svg("svg", { class: "strip", height: LINE_PX, "aria-hidden": "true" });
  let last = -Infinity;
  for (const tick of [1, ...TICKS].filter((each) => each === 1 || Math.abs(scale(each) - scale(1)) > 3)) {
    const at = scale(tick);
    const [apart, edge] = narrow.matches ? [2 * TICK_SHARE, 7] : [TICK_SHARE, 2];
    const isApart = at - last >= apart && Math.abs(at - scale(1)) >= TICK_SHARE;
    if (tick !== 1 && !(isApart && at >= edge && at <= 100 - edge)) continue;
    if (tick !== 1) last = at;
    made.append(svg("text", { x: share(at), y: 13, "text-anchor": "middle" }, String(tick)));
  }
  const ends = ["← faster", "candidate time / baseline time", "slower →"].map((text) => element("span", {}, text));
  return element("div", { class: "line axis" }, element("span"), element("div", {}, element("div", { class: "ends" }, ...ends), made), element("span"));
}

function words(row) {
  const interval = isMissing(row.ratio_low) ? "" : ` (${shownValue(row.ratio_low, "ratio")} to ${shownValue(row.ratio_high, "ratio")})`;
  return `${isMissing(row.ratio) ? "" : shownValue(row.ratio, "ratio")}${interval} ${VERDICTS[row.verdict]}`;
}

function drawnLine(rows, scale) {
  const marks = [];
  let before = null;
  rows.forEach((row, number) => {
    if (isMissing(row.ratio)) return;
    const [x, y] = [share(scale(row.ratio)), LINE_PX * (number + 0.5)];
    const [low, high] = isMissing(row.ratio_low) ? [x, x] : [row.ratio_low, row.ratio_high].map((end) => share(scale(Math.max(end, 1e-9))));
    if (before) marks.push(svg("line", { class: "join", x1: before[0], y1: before[1], x2: x, y2: y }));
    marks.push(svg("line", { class: row.verdict, x1: low, x2: high, y1: y, y2: y }));
    if (row.device_ratio > 0) marks.push(svg("line", { class: "device", x1: share(scale(row.device_ratio)), x2: share(scale(row.device_ratio)), y1: y - 6, y2: y + 6 }));
    marks.push(svg("text", { class: row.verdict, x, y, "text-anchor": "middle", "dominant-baseline": "central" }, VERDICTS[row.verdict][0]));
    before = [x, y];
  });
  const texts = rows.map((row) => (rows.length > 1 && row.place ? `${placeOf(row)}: ` : "") + words(row));
  const name = cellButton(rows[0], (differs(rows) ? "≠ " : "") + (rows.length > 1 ? rows[0].line : rows[0].label));
  const strip = svg("svg", { class: "strip", height: LINE_PX * rows.length, role: "img", "aria-label": texts.join("; ") }, ...ground(scale), ...marks);
  const results = texts.map((text, number) => element("span", { class: `verdict ${rows[number].verdict}` }, text));
  return element("div", { class: "line" }, name, strip, element("span", { class: "results" }, ...results));
}

const placeOf = (row) => row.place.replace("NVIDIA ", "");

// Returns whether two intervals of a line do not overlap.
function differs(rows) {
  const known = rows.filter((row) => !isMissing(row.ratio_low));
  return Math.max(...known.map((row) => row.ratio_low)) > Math.min(...known.map((row) => row.ratio_high));
}

// Counts the cells that differ between GPUs or versions.
function comparison(lines) {
  const several = lines.filter((line) => new Set(line.map(placeOf)).size > 1);
  const places = [...new Set(several.flat().map(placeOf))].sort(compare);
  const text = `${places.join(" · ")}: ${several.filter(differs).length} of ${several.length} cells differ (≠: their intervals do not overlap).`;
  return several.length ? [element("p", { class: "comparison" }, text)] : [];
}

// Draws a group as one line with a stroke for each cell. When opened, it shows a line for each cell.
function drawnGroup(lines, scale) {
  const rows = lines.flat();
  const strokes = new Map(rows.filter((row) => row.ratio > 0).map((row) => [share(scale(row.ratio)) + row.verdict, row]));
  const drawn = [...strokes.values()].map((row) => {
    const x = share(scale(row.ratio));
    return svg("line", { class: row.verdict, x1: x, x2: x, y1: 3, y2: LINE_PX - 3 });
  });
  const counts = Object.keys(VERDICTS).map((verdict) => [rows.filter((row) => row.verdict === verdict).length, verdict]);
  const texts = counts.filter(([count]) => count).map(([count, verdict]) => element("span", { class: `verdict ${verdict}` }, `${shownNumber(count)} ${VERDICTS[verdict]} `));
  const strip = svg("svg", { class: "strip", height: LINE_PX, "aria-hidden": "true" }, ...ground(scale), ...drawn);
  const made = lazily([element("span", {}, rows[0].workload), strip, element("span", { class: "results" }, ...texts)], () => lines.map((line) => drawnLine(line, scale)));
  made.firstChild.className = "line";
  return made;
}

function drawnPanel(title, rows) {
  const scale = scaleOf(rows);
  const first = (line) => Math.min(...line.map((row) => row.ratio ?? Infinity));
  const byPlace = grouped(rows, (row) => row.line).map((line) => line.sort((one, other) => compare(one.place, other.place)));
  const together = byPlace.flatMap((line) => (line.length > MOST_MARKS ? line.map((row) => [row]) : [line]));
  const lines = together.sort((one, other) => compare(first(one), first(other)));
  const panel = element("div", { class: "panel" }, element("h3", {}, title), ...comparison(lines), axisOf(scale));
  if (lines.length <= MOST_OPEN) return panel.append(...lines.map((line) => drawnLine(line, scale))), panel;
  const groups = grouped(lines, ([row]) => row.workload);
  const drawn = (some) => some.map((group) => (group.length > 1 ? drawnGroup(group, scale) : drawnLine(group[0], scale)));
  if (groups.length <= MOST_OPEN) return panel.append(...drawn(groups)), panel;
  const others = groups.slice(ENDS, -ENDS);
  const button = buttonOf("", `Show the other ${shownNumber(others.length)} lines`, () => button.replaceWith(...drawn(others)));
  panel.append(...drawn(groups.slice(0, ENDS)), button, ...drawn(groups.slice(-ENDS)));
  return panel;
}

function showEffects() {
  const rows = tables.verdicts.filter(isShown);
  const panels = PANELS.map(([kind, title]) => [title, rows.filter((row) => (row.loop_kind === "open") === (kind === "open"))]);
  const drawn = panels.filter(([, of]) => of.length);
  byId("effects").hidden = !tables.verdicts.length;
  fill("chart-effect", ...(drawn.length ? drawn.map(([title, of]) => drawnPanel(title, of)) : [nothing("Nothing passes the filters here.")]));
}
