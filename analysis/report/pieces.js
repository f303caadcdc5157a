// Reads the data of the report, and makes elements of the page. Users choose names in the data, so
// names are written only as text, never as markup.
"use strict";

const report = JSON.parse(document.getElementById("report").textContent);

const VERDICTS = report.verdicts; // text of each verdict, with its sign
const narrow = matchMedia("(max-width: 700px)");

// --- Data: rows as objects, which include the columns of their cell ---

function rowsOf(name) {
  const { columns, rows, values, places } = report.tables[name];
  const placeOf = (column, row) => (places[column] ? places[column][row] : values[column].length > 1 ? row : 0);
  const pairs = (row) => columns.map((title, column) => [title, values[column][placeOf(column, row)]]);
  return Array.from({ length: rows }, (_, row) => Object.fromEntries(pairs(row)));
}

const cells = rowsOf("cells");
const tables = { cells };
for (const name of Object.keys(report.tables)) {
  if (name === "cells") continue;
  tables[name] = rowsOf(name).map((row) => ("cell" in row ? { ...cells[row.cell], ...row } : row));
}

const chosen = { contrast: 0 };

// --- Small pieces ---

function completed(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const element = (name, attributes = {}, ...children) => completed(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) => completed(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
const byId = (id) => document.getElementById(id);
const fill = (id, ...children) => byId(id).replaceChildren(...children);
const folded = (summary, children) => element("details", {}, element("summary", {}, summary), ...children);
const list = (sentences) => element("ul", {}, ...sentences.map((sentence) => element("li", {}, sentence)));
const nothing = (text) => element("p", { class: "nothing" }, text);
const grouped = (rows, keyOf) => [...Map.groupBy(rows, keyOf).values()];
const isMissing = (value) => value === null || value === undefined;

const threeDigits = new Intl.NumberFormat("en", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 });

function shownNumber(value) {
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const small = value !== 0 && Math.abs(value) < 1e-4;
  return small ? value.toExponential(2) : threeDigits.format(value);
}

function shownValue(value, field) {
  if (isMissing(value)) return "";
  if (typeof value !== "number") return VERDICTS[value] ?? String(value);
  if (/_bytes$/.test(field)) return `${shownNumber(value / 2 ** 30)} GiB`;
  if (/ratio/.test(field) && value < 10) return value.toFixed(3); // near 1, three digits are too few
  return shownNumber(value);
}

const TITLES = { label: "cell", row_label: "workload", regime_label: "regime", family: "workload", steady_wall_ms: "ms", steady_device_ms: "device ms" };

// Adds a title to a column that is only a field name.
function columnOf(column) {
  return typeof column === "string" ? { field: column, title: TITLES[column] ?? column.replaceAll("_", " ") } : column;
}

// Makes a folded element. Its body is made when it is first opened.
function lazily(summary, make) {
  const made = element("details", {}, element("summary", {}, ...summary));
  made.addEventListener("toggle", () => made.open && made.childElementCount === 1 && made.append(...make()));
  return made;
}

function buttonOf(kind, text, onClick) {
  const button = element("button", { type: "button", class: kind }, text);
  button.addEventListener("click", onClick);
  return button;
}

function selectOf(name, title, options, onChange) {
  const select = element("select", { id: `filter-${name}`, name });
  select.append(...options.map(([value, text]) => element("option", { value }, text)));
  select.addEventListener("change", () => onChange(select.value));
  return element("label", { for: select.id }, title, select);
}

// --- Tables ---

function tableOf({ caption, columns: shownColumns, rows, firstCell, sorting }) {
  const columns = shownColumns.map(columnOf);
  const body = element("tbody", {}, ...rows.map((row) => rowOf(row, columns, firstCell)));
  const head = element("tr", {}, ...columns.map((column) => headOf(column, rows, sorting)));
  const table = element("table", {}, element("caption", {}, caption), element("thead", {}, head), body);
  return element("div", { class: "scrolls", role: "region", tabindex: "0", "aria-label": caption }, table);
}

function rowOf(row, columns, firstCell) {
  const values = columns.map(({ field, title }, place) => {
    const value = row[field];
    const isInWords = field === "wall_in_words" && value; // the verdict with details
    const text = isInWords ? `${VERDICTS[row.verdict].slice(0, 2)}${value}` : shownValue(value, field);
    if (place === 0) return element("th", { scope: "row" }, firstCell ? firstCell(row, text) : text);
    const verdict = isInWords ? row.verdict : value;
    const looks = verdict in VERDICTS ? `verdict ${verdict}` : typeof value === "number" ? "number" : "text";
    return element("td", { class: looks, "data-title": title }, text); // a phone shows titles in the cells
  });
  return element("tr", {}, ...values);
}

function headOf(column, rows, sorting) {
  const numeric = rows.some((row) => typeof row[column.field] === "number") ? "number" : "text";
  if (!sorting) return element("th", { scope: "col", class: numeric }, column.title);
  const isBy = sorting.field === column.field;
  const order = sorting.descending ? "descending" : "ascending";
  const button = buttonOf("sort", column.title, () => sorting.by(column));
  return element("th", { scope: "col", class: numeric, "aria-sort": isBy ? order : "none" }, button);
}

function compare(one, other) {
  if (isMissing(one) || isMissing(other)) return isMissing(one) - isMissing(other);
  return typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
}

// --- Charts ---

function draw(place, spec, figure) {
  return vegaEmbed(place, spec, {
    actions: false,
    ast: true, // interprets expressions, because the page's policy forbids eval
    defaultStyle: false,
    renderer: "svg",
    tooltip: (handler, event, item) => showTooltip(figure, event, item),
  });
}

function showTooltip(figure, event, item) {
  const tooltip = byId("tooltip");
  const datum = item?.datum;
  tooltip.hidden = !item?.tooltip || !datum;
  if (tooltip.hidden) return;
  const columns = figure.columns.map(columnOf).filter(({ field }) => !isMissing(datum[field]));
  const lines = columns.flatMap(({ field, title }) => [element("dt", {}, title), element("dd", {}, shownValue(datum[field], field))]);
  tooltip.replaceChildren(element("dl", {}, ...lines));
  const left = Math.min(event.clientX + 14, innerWidth - tooltip.offsetWidth - 8);
  const below = event.clientY + 14;
  const top = below + tooltip.offsetHeight > innerHeight ? event.clientY - tooltip.offsetHeight - 10 : below;
  tooltip.style.left = `${Math.max(8, left)}px`;
  tooltip.style.top = `${Math.max(8, top)}px`;
}
