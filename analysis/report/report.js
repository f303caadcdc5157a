// Fills the page with the report.

const NOT_FILTERS = ["problem", "input_shape"]; // these have too many values for a filter
const FILTERS = [...report.axes.filter((axis) => !NOT_FILTERS.includes(axis)), "gpu", "verdict"];
const DENSE_ROWS = 60; // a chart with more lines is dense
const HEIGHT_PX = 300; // height of a chart without lines
const [ROW_PX, DENSE_PX, MOST_DENSE_PX] = [28, 4, 720];
const MOST_ROWS = 1000; // number of cells that are shown at first, because 16,000 can take minutes
const SEARCH_MS = 250; // delay between the last key and the search
const FIRST_SENTENCES = 3; // number of sentences that are not folded
const SORTED_BY = { empty_payback: "empty_iterations", warm_payback: "warm_iterations" };

// --- Filters ---

function isShown(row) {
  if ("contrast" in row && row.contrast !== chosen.contrast) return false;
  const words = (chosen.search ?? "").toLowerCase().split(/\s+/); // in any order
  if (row.label && !words.every((word) => row.label.toLowerCase().includes(word))) return false;
  return FILTERS.every((field) => !chosen[field] || !(field in row) || row[field] === chosen[field]);
}

// --- The table of cells ---

const sorting = {
  ...{ field: "ratio", key: "ratio", descending: false },
  by(column) {
    this.descending = this.field === column.field && !this.descending;
    this.field = column.field;
    this.key = SORTED_BY[column.field] ?? column.field;
    showCells();
    [...document.querySelectorAll("#cell-table .sort")].find((each) => each.textContent === column.title).focus();
  },
};

function missingLast(one, other) {
  const order = compare(one[sorting.key], other[sorting.key]);
  const lacks = isMissing(one[sorting.key]) || isMissing(other[sorting.key]);
  return sorting.descending && !lacks ? -order : order;
}

function showCells() {
  const rows = tables.verdicts.filter(isShown).sort(missingLast);
  const columns = report.shown.filter(({ field }) => tables.verdicts.some((row) => row[field] !== null));
  const caption = `${report.contrasts[chosen.contrast]?.name ?? "No contrast"}: ${shownNumber(rows.length)} cells`;
  const drawn = (some) => tableOf({ caption, columns, rows: some, firstCell: cellButton, sorting });
  const rest = rows.length > MOST_ROWS ? [lazily([`All ${shownNumber(rows.length)} cells`], () => [drawn(rows)])] : [];
  fill("cell-table", rows.length ? drawn(rows.slice(0, MOST_ROWS)) : nothing("No cell passes the filters."), ...rest);
}

const cellButton = (row, text) => buttonOf("cell", text, () => showTrials(row.cell));

// --- A cell's trials ---

function showTrials(cell) {
  const rows = tables.trials.filter((row) => row.cell === cell);
  const command = report.trials_query.replace("CELL", cells[cell].cell_id);
  const isKnown = (field) => rows.some((row) => row[field] !== null && row[field] !== "");
  const columns = report.tables.trials.columns.filter((field) => field !== "cell" && isKnown(field));
  const caption = `${cells[cell].label}: ${shownNumber(cells[cell].trials)} trials`;
  const table = rows.length ? tableOf({ caption, columns, rows }) : element("p", {}, `${caption}, too many for this file.`);
  fill("trial-table", ...kernelsOf(cell), table, element("p", {}, "This command shows all columns: ", element("code", {}, command)));
  byId("trials").focus({ preventScroll: true });
  byId("trials").scrollIntoView({ block: "start" });
}

// Shows the kernels that not all configs ran equally often.
function kernelsOf(cell) {
  const ran = grouped(tables.kernels.filter((row) => row.cell === cell), (row) => row.operation + row.kernel);
  const configs = Math.max(...ran.map((rows) => rows.length));
  const apart = ran.filter((rows) => rows.length < configs || new Set(rows.map((row) => row.launches / row.processes)).size > 1).flat();
  const rows = apart.map((row) => ({ ...row, launches_each: row.launches / row.processes }));
  const caption = "Convolution kernels in which the configs differ, with the number of processes and launches";
  return rows.length ? [tableOf({ caption, columns: ["operation", "kernel", "config", "processes", "launches_each"], rows })] : [];
}

// --- Charts ---

const views = [];

function specOf(figure, rows) {
  const lines = new Set(rows.map((row) => row[figure.rows])).size;
  const dense = lines > DENSE_ROWS;
  const height = dense ? Math.min(MOST_DENSE_PX, lines * DENSE_PX) : figure.rows ? lines * ROW_PX * (narrow.matches ? 2 : 1) : HEIGHT_PX;
  const description = `${figure.title}. ${figure.about} A table of the rows follows.`;
  const known = { min_effect: report.min_effect, narrow: narrow.matches, dense, reach: job.reach ?? 2 };
  const params = Object.entries(known).map(([name, value]) => ({ name, value }));
  return { ...figure.drawing, height, description, params, datasets: { rows } };
}

function drawnRows(figure) {
  const rows = tables[figure.table].filter((row) => isShown(row) && figure.needs.every((field) => !isMissing(row[field])));
  if (!figure.compares) return rows;
  const lines = grouped(rows, (row) => row[figure.rows]);
  return lines.filter((line) => new Set(line.map((row) => row[figure.compares])).size > 1).flat();
}

function showFigures() {
  for (const view of views.splice(0)) view.finalize();
  return Promise.all(report.figures.map(showFigure));
}

async function showFigure(figure) {
  const rows = drawnRows(figure);
  const place = byId(`chart-${figure.name}`);
  const details = byId(`data-${figure.name}`);
  const isFiltered = ["search", ...FILTERS].some((field) => chosen[field]);
  place.parentElement.hidden = !rows.length && (figure.compares || !isFiltered);
  details.hidden = rows.length === 0;
  details.open = false;
  details.querySelector("summary").textContent = `Table of the ${shownNumber(rows.length)} rows`;
  if (!rows.length) return place.replaceChildren(nothing("Nothing passes the filters here."));
  const made = await draw(place, specOf(figure, rows), figure);
  views.push(made);
  made.view.addEventListener("click", (event, item) => item?.datum?.cell !== undefined && showTrials(item.datum.cell));
}

function figureElement(figure) {
  const heading = element("h2", { id: `heading-${figure.name}` }, figure.title);
  const chart = element("div", { id: `chart-${figure.name}`, class: "chart" });
  const about = element("figcaption", { class: "quiet" }, figure.about);
  const details = element("details", { id: `data-${figure.name}` }, element("summary"), element("div"));
  details.addEventListener("toggle", () => {
    if (details.open) details.lastChild.replaceChildren(tableOf({ caption: figure.title, columns: figure.columns, rows: drawnRows(figure) }));
  });
  return element("figure", { "aria-labelledby": heading.id }, heading, chart, about, details);
}

// --- Sentences, filters and other parts ---

function showWords() {
  const contrast = report.contrasts[chosen.contrast];
  const sentences = (contrast?.sentences ?? []).map((each) => element("p", {}, each));
  const more = sentences.splice(FIRST_SENTENCES);
  byId("headline").textContent = contrast?.headline ?? report.nothing;
  fill("words", ...sentences, ...(more.length ? [folded("More", more)] : []));
  byId("cost").textContent = report.cost;
  const left = [...(contrast?.left_out ?? []), ...report.left_out];
  const warned = report.warnings.length ? [element("h2", {}, "Warnings"), list(report.warnings)] : [];
  fill("left-out-list", left.length ? list(left) : element("p", {}, "Nothing was left out. Every trial ended well."), ...failures(), ...warned);
}

function failures() {
  const rows = tables.failures;
  if (!rows.length) return [];
  const columns = ["status", "message", ...report.axes, "benchmark", "started_at", "trial_id"];
  const query = element("p", {}, "This command shows all of them: ", element("code", {}, report.failures_query));
  return [tableOf({ caption: "Failed trials", columns, rows }), query];
}

function showTiles() {
  const rows = tables.verdicts.filter(isShown);
  const tiles = Object.entries(VERDICTS).flatMap(([verdict, text]) => {
    const count = rows.filter((row) => row.verdict === verdict).length;
    return count ? [element("li", { class: `tile ${verdict}` }, element("strong", {}, shownNumber(count)), ` ${text}`)] : [];
  });
  byId("tiles").hidden = !report.contrasts.length;
  fill("tiles", ...tiles);
  const total = tables.verdicts.filter((row) => row.contrast === chosen.contrast).length;
  byId("shown").textContent = total ? `${shownNumber(rows.length)} of ${shownNumber(total)} cells shown` : "";
}

function showFilters() {
  const made = [];
  if (report.contrasts.length > 1) {
    const options = report.contrasts.map(({ name }, number) => [String(number), name]);
    made.push(selectOf("contrast", "Contrast", options, (value) => choose("contrast", Number(value))));
  }
  for (const field of FILTERS) {
    const source = field === "verdict" ? tables.verdicts : cells;
    const values = [...new Set(source.map((row) => row[field]))].sort(compare);
    if (values.length < 2) continue;
    const options = [["", "all"], ...values.map((value) => [value, field === "verdict" ? VERDICTS[value] : value])];
    const title = field === "gpu" ? "GPU" : field[0].toUpperCase() + field.slice(1).replaceAll("_", " ");
    made.push(selectOf(field, title, options, (value) => choose(field, value)));
  }
  if (tables.verdicts.length > FIRST_SENTENCES) made.push(searchBox());
  const folds = narrow.matches || cells.length <= DENSE_ROWS ? made.splice(report.contrasts.length > 1) : []; // saves room on a phone and with few cells
  fill("filters", ...made, ...(folds.length ? [folded("Filters", folds)] : []));
  byId("filters").hidden = !made.length && !folds.length;
}

function searchBox() {
  const input = element("input", { id: "filter-search", type: "search", placeholder: "words of the name" });
  let later;
  input.addEventListener("input", () => {
    clearTimeout(later);
    later = setTimeout(() => choose("search", input.value), SEARCH_MS);
  });
  return element("label", { for: input.id }, "Cell", input);
}

function choose(field, value) {
  chosen[field] = value;
  show();
}

// Each environment is a column of the table, because it has many fields.
function showEnvironment() {
  const environments = tables.environments;
  if (!environments.length) return fill("environment-table", nothing("No trial is stored."));
  const fields = report.tables.environments.columns.filter((field) => environments.some((each) => each[field] !== null));
  const rows = fields.map((field) => ({ field: columnOf(field).title, ...environments.map((each) => shownValue(each[field], field)) }));
  const columns = [{ field: "field", title: "" }, ...environments.map((each, place) => ({ field: place, title: each.gpu }))];
  const sweeps = tableOf({ caption: "Sweeps", columns: report.tables.sweeps.columns, rows: tables.sweeps });
  fill("environment-table", tableOf({ caption: "Environments", columns, rows }), sweeps);
}

function show() {
  showWords();
  showTiles();
  showJobs();
  showEffects();
  showCells();
  return showFigures();
}

function start() {
  document.title = [document.title, ...report.common.slice(0, 1)].join(" · ");
  byId("common").textContent = report.common.join(" · ");
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  narrow.addEventListener("change", show);
  fill("figures", ...report.figures.map(figureElement));
  byId("jobs").append(byId("chart-jobs").parentElement);
  showFilters();
  showJobForm();
  showEnvironment();
  return show();
}

start().then(() => document.body.setAttribute("data-drawn", "yes"));
