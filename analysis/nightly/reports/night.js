// Fills the page of a night.

const SIGNS = { worse: "▲ worse", other: "◆ changed", waiting: "◷ waits", better: "▼ better", refuted: "– refuted" };
const MOST_DRAWN = 30; // histories at once; a button draws each of the others
const MOST_OF_ONE = 4; // of them for one finding
const MOST_OFFERED = 500; // series in the chooser; the search narrows them
const WORD_PX = 26; // of a word's line
const MOST_TICKS = { wide: 9, narrow: 4 };
const EMPTY_SPACE = 0.08; // of the scale, above and below
const BEYOND = 0.3; // a night that is further from every level is drawn at the edge of the scale
const LEAST_SPAN = 0.1; // of the level: of a series that never moves, so that its noise looks small
const KEY =
  "A dot is a night, the thick line the level between changes. ▶ worse, ◀ better or ◆ changed since the night of the finding; ▲ beyond the scale; ✚ not measured. A dashed line with a number is the first night with other software.";
const FOUND_COLUMNS = [
  { field: "told", title: "change", kind: "text" },
  { field: "group", title: "", kind: "text" },
  { field: "cells", title: "cells and settings", kind: "text" },
];
const fourDigits = new Intl.NumberFormat("en", { minimumSignificantDigits: 4, maximumSignificantDigits: 4 }); // nights differ little
const dayText = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });

// --- A series as rows ---

function timeOf(date) {
  return Date.parse(`${date}T00:00:00Z`);
}

function shownWith(value, unit) {
  if (typeof value !== "number") return value;
  const text = Math.abs(value) < 1e-4 ? shownNumber(value) : fourDigits.format(value);
  return `${text} ${unit}`.trim();
}

function isOfWords(series) {
  return series.values.some((value) => typeof value === "string");
}

function nightRows(series, finding) {
  const { nights, marks } = report.hardware[series.env];
  return series.values.map((value, number) => {
    const place = number + series.first;
    const [date, night] = nights[place];
    const level = series.levels.find(([start, end]) => start <= place && place <= end)?.[2];
    const mark = marks.filter((each) => each.place <= place).at(-1);
    return {
      value,
      date: timeOf(date),
      day: dayText.format(timeOf(date)),
      night,
      shown: value === null ? "not measured" : shownWith(value, series.unit),
      level: typeof level === "number" ? shownWith(level, series.unit) : null,
      processes: series.processes[number],
      version: mark ? `since ${nights[mark.place][0]}: ${mark.version}` : null,
      state: stateOf(value, date, finding),
    };
  });
}

function stateOf(value, date, finding) {
  if (value === null) return "not measured";
  if (!finding || finding.group === "refuted" || date < finding.since || String(value) === finding.before) return "usual";
  return finding.direction === "other" ? "changed" : finding.direction;
}

function levelRows(series) {
  const { nights } = report.hardware[series.env];
  return series.levels.map(([start, end, level]) => ({ start: timeOf(nights[start][0]), end: timeOf(nights[end][0]), level }));
}

function jumpRows(series) {
  if (isOfWords(series)) return [];
  const { nights } = report.hardware[series.env];
  return series.levels.slice(1).map(([start, , after], number) => {
    const before = series.levels[number][2];
    const percent = 100 * (after / before - 1);
    const size = Math.abs(percent) < 100 ? `${percent > 0 ? "+" : "−"}${threeDigits.format(Math.abs(percent))}%` : `× ${threeDigits.format(after / before)}`;
    return { date: timeOf(nights[start][0]), before, after, middle: (before + after) / 2, size };
  });
}

function markRows(series) {
  const { nights, marks } = report.hardware[series.env];
  return marks
    .filter(({ place }) => place >= series.first)
    .map(({ place, version }, number) => {
      const date = timeOf(nights[place][0]);
      return { date, day: dayText.format(date), number: String(number + 1), version };
    });
}

// --- Charts ---

// Of the levels and the nights near them: one odd night must not flatten all others.
function spanOf(series) {
  const values = series.values.filter((value) => value !== null);
  const levels = series.levels.map(([, , level]) => level);
  const near = (value) => !levels.length || levels.some((level) => Math.abs(value - level) <= BEYOND * Math.abs(level));
  const kept = [...levels, ...values.filter(near)];
  if (!kept.length) return [0, 1];
  const [least, most] = [Math.min(...kept), Math.max(...kept)];
  const wanting = Math.max(0, LEAST_SPAN * Math.abs(most) - (most - least)) / 2;
  const space = EMPTY_SPACE * (most - least + 2 * wanting) || 1;
  return [least - wanting - space, most + wanting + space];
}

function withinScale(rows, [low, high]) {
  const inner = (value) => Math.min(Math.max(value, low + (high - low) / 50), high - (high - low) / 50);
  return rows.map((row) => {
    if (row.value === null || (low <= row.value && row.value <= high)) return row;
    return { ...row, value: inner(row.value), state: "beyond the scale" };
  });
}

function ticksOf(rows) {
  const most = narrow.matches ? MOST_TICKS.narrow : MOST_TICKS.wide;
  const step = Math.ceil(rows.length / most);
  return rows.filter((_, number) => (rows.length - 1 - number) % step === 0).map(({ date }) => date);
}

function withDomains({ x, y, ...others }, across, up) {
  const withDomain = (channel, domain) => (channel?.field && domain ? { ...channel, scale: { ...channel.scale, domain } } : channel);
  return { ...others, x: withDomain(x, across), ...(y && { y: withDomain(y, up) }) };
}

function specOf(series, rows) {
  const words = isOfWords(series);
  const { wide, narrow: small } = report.drawings[words ? "words" : "numbers"];
  const drawing = (narrow.matches && small) || wide;
  const across = [rows[0].date, rows.at(-1).date];
  const up = words ? null : spanOf(series);
  const shown = words ? rows.map((row) => ({ ...row, value: row.value ?? "not measured" })) : withinScale(rows, up);
  const given = { unit: series.unit, days: ticksOf(rows) };
  return {
    ...drawing,
    layer: drawing.layer.map((layer) => ({ ...layer, encoding: withDomains(layer.encoding, across, up) })),
    height: words ? WORD_PX * (1 + new Set(shown.map(({ value }) => value)).size) : drawing.height,
    description: `${series.metric} of ${series.cell}, ${series.settings}, over ${rows.length} nights. They follow as a table.`,
    params: Object.entries(given).map(([name, value]) => ({ name, value })),
    datasets: {
      ...drawing.datasets,
      rows: shown.map((row) => ({ ...row, told: `${row.day}: ${row.shown}, ${row.state}` })),
      levels: levelRows(series),
      jumps: jumpRows(series),
      versions: markRows(series),
    },
  };
}

function historyOf(series, finding) {
  const rows = nightRows(series, finding);
  const { columns } = report;
  const place = element("div", { class: "chart" });
  const marks = markRows(series);
  const versions = element("ol", { class: "versions", "aria-label": "Software" }, ...marks.map(({ day, version }) => element("li", {}, `${day}: ${version}`)));
  const details = element("details", {}, element("summary", {}, rows.length === 1 ? "The night as a table" : `The ${shownNumber(rows.length)} nights as a table`), element("div"));
  details.addEventListener("toggle", () => {
    const kept = columns.filter(({ field }) => rows.some((row) => row[field] !== null));
    const caption = `${series.metric}: ${series.cell} · ${series.settings}`;
    details.lastChild.replaceChildren(...(details.open ? tableOf({ caption, columns: kept, rows: [...rows].reverse() }) : []));
  });
  const step = series.smallest_step ? [element("p", { class: "quiet" }, `The smallest step that it could show: ${series.smallest_step}.`)] : [];
  const figure = element("figure", { "aria-label": `History of ${series.metric}` }, place, ...step, ...(marks.length ? [versions] : []), details);
  let view = null;
  const drawNow = async () => {
    view?.finalize();
    view = await draw(place, specOf(series, rows), { columns });
  };
  return { figure, drawNow };
}

// --- What was found ---

const drawn = []; // what to draw again where the width changes

function findingElement(finding, number) {
  const accept = report.accept.replace("SERIES", finding.series_id).replace("DATE", finding.since);
  const commands = [["measure again", finding.command], ...(finding.group === "alert" ? [["accept", accept]] : [])];
  return element(
    "article",
    { class: "finding", id: `finding-${number}`, tabindex: "-1", "aria-labelledby": `name-${number}` },
    element("h3", { id: `name-${number}` }, element("span", { class: `badge ${finding.group}` }, signOf(finding)), finding.told),
    list(finding.details),
    element("dl", { class: "said" }, ...commands.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, element("code", {}, text))])),
    ...finding.series.flatMap((one, place) => memberElements(one, place < MOST_OF_ONE))
  );
}

function memberElements(one, isDrawn) {
  const name = element("h4", {}, `${one.name}: ${one.size}`, element("span", { class: "quiet" }, ` · series ${one.series_id}`));
  if (one.place === null) return [name];
  const { figure, drawNow } = historyOf(report.series[one.place], one);
  if (isDrawn && drawn.length < MOST_DRAWN) {
    drawn.push(drawNow);
    return [name, figure];
  }
  const button = element("button", { type: "button" }, "Show its history");
  button.addEventListener("click", () => {
    button.replaceWith(figure);
    drawn.push(drawNow);
    drawNow();
  });
  return [name, button];
}

function signOf({ group, direction }) {
  return SIGNS[group === "alert" ? direction : group];
}

function showFound() {
  const { findings } = report;
  byId("found").hidden = byId("histories").hidden = !findings.length;
  const rows = findings.map((each, number) => ({ told: each.told, number, group: signOf(each), cells: each.details[0] }));
  const firstCell = (row, text) => element("a", { href: `#finding-${row.number}` }, text);
  fill("found-table", ...tableOf({ caption: "What is not as it was", columns: FOUND_COLUMNS, rows, firstCell }));
  byId("key").textContent = KEY;
  fill("history-list", ...findings.map(findingElement));
}

function showTiles() {
  const groups = Object.entries(report.titles).filter(([group]) => report.counts[group]);
  const words = { alert: "alerts", waiting: "wait", better: "better", refuted: "refuted" };
  const tiles = groups.map(([group]) => [group, report.counts[group], words[group]]);
  tiles.push(["", report.fine, "as they were"]);
  if (report.blunt) tiles.push(["", report.blunt, "too noisy to see the least effect"]);
  tiles.push(["", report.insufficient, "with too few nights"]);
  fill("tiles", ...tiles.map(([group, count, text]) => element("li", { class: `tile ${group}` }, element("strong", {}, shownNumber(count)), ` ${text}`)));
}

// --- The rest ---

const choice = { gpu: "", metric: "", text: "" };

function offered() {
  const words = choice.text.toLowerCase().split(/\s+/);
  return report.series.flatMap((series, place) => {
    const name = `${series.cell} · ${series.settings} · ${series.metric}`;
    const fits = ["gpu", "metric"].every((field) => !choice[field] || series[field] === choice[field]) && words.every((word) => name.toLowerCase().includes(word));
    return fits ? [[String(place), name]] : [];
  });
}

let shownSeries = null;

function showSeries(place) {
  if (place === "") return fill("chosen", nothing("No series has all of these words."));
  const finding = report.findings.flatMap((each) => each.series).find((each) => each.place === Number(place));
  const { figure, drawNow } = historyOf(report.series[place], finding);
  shownSeries = drawNow;
  fill("chosen", figure);
  return drawNow();
}

function showOffered() {
  const options = offered();
  const shown = options.slice(0, MOST_OFFERED);
  const title = options.length > shown.length ? `Series (${MOST_OFFERED} of ${shownNumber(options.length)})` : `Series (${shownNumber(options.length)})`;
  const label = selectOf("series", title, shown, showSeries);
  label.className = "long";
  byId("filter-series")?.parentElement.remove();
  byId("choice").append(label);
  return showSeries(shown[0]?.[0] ?? "");
}

function showChoice() {
  if (!report.series.length) return fill("chosen", nothing("No series has a night yet."));
  const selects = [["gpu", "GPU"], ["metric", "Of"]].flatMap(([field, title]) => {
    const values = [...new Set(report.series.map((series) => series[field]))].sort(compare);
    const options = [["", "all"], ...values.map((value) => [value, value])];
    return values.length > 1 ? [selectOf(field, title, options, (value) => choose(field, value))] : [];
  });
  const search = element("input", { type: "search", id: "filter-text" });
  search.addEventListener("input", () => choose("text", search.value));
  fill("choice", ...selects, element("label", { for: search.id }, "With the words", search));
  byId("choice").addEventListener("submit", (event) => event.preventDefault());
  return showOffered();
}

function choose(field, value) {
  choice[field] = value;
  return showOffered();
}

function showRest() {
  const changes = report.changes.length
    ? tableOf({ caption: "Software and hardware", columns: ["part", "before", "now"].map((field) => ({ field, title: field, kind: "text" })), rows: report.changes })
    : [element("p", {}, "Nothing that is known.")];
  const baseline = report.new_baseline ? [element("p", {}, `A new baseline starts here, and the nights before do not count: ${report.new_baseline}.`)] : [];
  fill("change-table", ...baseline, ...changes);
  const facts = report.facts.map(([name, value]) => ({ name, value }));
  fill("facts", ...tableOf({ caption: "About the night", columns: [{ field: "name", title: "", kind: "text" }, { field: "value", title: "", kind: "text" }], rows: facts }));
  byId("reasons").hidden = !report.reasons.length;
  byId("reasons-heading").textContent = report.why;
  fill("reason-list", list(report.reasons));
}

function drawAll() {
  return Promise.all([...drawn, ...(shownSeries ? [shownSeries] : [])].map((drawNow) => drawNow()));
}

async function start() {
  const gpus = [...new Set(report.series.map(({ gpu }) => gpu))];
  document.title = report.headline;
  byId("headline").textContent = report.headline;
  byId("common").textContent = gpus.join(" · ");
  showTiles();
  showFound();
  showRest();
  await showChoice();
  narrow.addEventListener("change", drawAll);
  return Promise.all(drawn.map((drawNow) => drawNow()));
}

start().then(() => document.body.setAttribute("data-drawn", "yes"));
