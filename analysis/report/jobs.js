// Shows times and advice for a job of any length. The data has times at 100, 200, 500, ... steps.

const STARTS = { container: "in a new container", warm: "on a warm machine" };
const MOST_OPENED = 12; // with more cells, the table is folded
const NO_DIFFERENCE = 0.02; // share of the job's time, as in `sweep query advice`
const SHORT_NAME = /^(\w+): (.{1,20}) → (.{1,20})$/;
const USUAL = "benchmark=false"; // name of PyTorch's default config in a race
const brief = (config) => config.replace(/benchmark=false (?!beside)/g, ""); // leaves out benchmark=false
const job = { steps: 20000, start: "container", cell: null };
tables.curve = [];

const numbers = (text) => (text ?? "").split(" ").map((each) => (each === "" || each === "nan" ? null : Number(each)));
const between = (one, other, share) => (isMissing(one) || isMissing(other) ? null : one + (other - one) * share);

// If only the first and the last time are given, the others are on a line between them.
const timesOf = (steps, times) => (times.length === steps.length ? times : steps.map((each) => between(...times, (each - steps[0]) / (steps.at(-1) - steps[0]))));

for (const row of tables.jobs) {
  for (const name of ["steps", "baseline_s", "candidate_s", "ratio_low", "ratio_high"]) row[name] = numbers(row[name]);
  for (const name of ["baseline_s", "candidate_s"]) row[name] = timesOf(row.steps, row[name]);
  row.advice = row.advice.split("|");
  row.verdict = tables.verdicts[row.answer];
}
if (tables.jobs.length && !tables.jobs.some((row) => row.start === job.start)) job.start = "warm";

// Interpolates times and intervals. If the advice before and after differs, the interval decides.
function jobAt(row, steps) {
  const grid = row.steps;
  const after = Math.min(Math.max(1, grid.findIndex((each) => each >= steps)), grid.length - 1);
  const before = steps >= grid[after] ? after : after - 1;
  const along = before === after ? 0 : (steps - grid[before]) / (grid[after] - grid[before]);
  const inLog = before === after ? 0 : Math.log(steps / grid[before]) / Math.log(grid[after] / grid[before]);
  const [baseline, candidate] = [row.baseline_s, row.candidate_s].map((times) => between(times[before], times[after], along));
  const ratio = candidate / baseline;
  const width = (ends, place) => (isMissing(ends[place]) ? null : Math.log((ends[place] * row.baseline_s[place]) / row.candidate_s[place]));
  const end = (ends) => {
    const moved = between(width(ends, before), width(ends, after), inLog);
    return isMissing(moved) ? null : ratio * Math.exp(moved);
  };
  const [low, high] = [end(row.ratio_low), end(row.ratio_high)];
  const advice = along === 0 || row.advice[before] === row.advice[after] ? row.advice[before] : decided(row, low, high);
  return { ...row.verdict, steps, advice, baseline_s: baseline, candidate_s: candidate, job_ratio: ratio, job_low: low, job_high: high };
}

function decided(row, low, high) {
  if (isMissing(low) || isMissing(high)) return "undecided";
  if (Math.max(high, 1 / low) < 1 + NO_DIFFERENCE) return "no difference";
  if (low > 1) return row.baseline_word;
  const candidate = row.advice.find((each) => !["undecided", "no difference", row.baseline_word].includes(each));
  return (high < 1 && candidate) || "undecided";
}

function shownTime(seconds) {
  if (seconds < 120) return `${threeDigits.format(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${shownNumber(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

const curveButton = (row, text) => buttonOf("cell", text, () => showCurve(row.cell));

function jobTable(rows) {
  const sorted = rows.sort((one, other) => compare(one.job_ratio, other.job_ratio));
  const shown = sorted.map((row) => ({
    ...row,
    saves: `${row.job_ratio > 1 ? "\u2212" : ""}${shownTime(Math.abs(row.baseline_s - row.candidate_s))}`,
    interval: isMissing(row.job_low) ? "" : `${row.job_low.toFixed(3)} to ${row.job_high.toFixed(3)}`,
    ...{ baseline_time: shownTime(row.baseline_s), candidate_time: shownTime(row.candidate_s) },
  }));
  const [, field, ...named] = report.contrasts[chosen.contrast].name.match(SHORT_NAME) ?? [];
  const [from, to] = field ? named.map((value) => `${field} ${value}`) : ["the baseline", "the candidate"];
  const titles = { advice: field ?? "advice", baseline_time: `job with ${from}`, candidate_time: `with ${to}`, saves: `${to} saves`, job_ratio: "ratio", interval: "95% interval" };
  const columns = ["label", ...Object.entries(titles).map(([field, title]) => ({ field, title }))];
  const caption = `${shownNumber(job.steps)} steps, ${STARTS[job.start]}; select a name to see its curve`;
  return tableOf({ caption, columns, rows: shown, firstCell: curveButton });
}

// Shows the fastest config of each cell, with other configs that may be as fast.
function raceTable(rows) {
  const shown = grouped(rows, (row) => row.cell).map((ofCell) => {
    const runs = ofCell.filter(({ advice }) => !["fails", "does not fit"].includes(advice));
    const sides = [...ofCell.map((row) => [row.best, row.baseline_s]), ...runs.map((row) => [row.other, row.candidate_s])];
    const [set, seconds] = sides.sort(([, one], [, other]) => compare(one, other))[0];
    const beside = ofCell.filter((row) => row.best === set || row.other === set);
    const usual = [...beside, ...ofCell].find((row) => row.other === USUAL)?.candidate_s ?? ofCell.find((row) => row.best === USUAL)?.baseline_s;
    const alike = beside.filter(({ advice }) => ["undecided", "no difference"].includes(advice)).map((row) => (row.best === set ? row.other : row.best));
    const either = [set, ...alike].map(brief).join(" or ");
    const label = cells[ofCell[0].cell].label;
    return { cell: ofCell[0].cell, label, set: either, time: shownTime(seconds), usual: isMissing(usual) ? "" : shownTime(usual), share: isMissing(usual) ? null : seconds / usual };
  });
  shown.sort((one, other) => compare(one.share, other.share));
  const columns = ["label", "set", { field: "time", title: "the job takes" }, { field: "usual", title: "with PyTorch's defaults" }];
  return tableOf({ caption: `${shownNumber(job.steps)} steps, ${STARTS[job.start]}`, columns, rows: shown, firstCell: curveButton });
}

function showJobs() {
  const contrast = report.contrasts[chosen.contrast];
  const verdicts = tables.verdicts.filter(isShown);
  byId("jobs").hidden = !contrast || contrast.name.startsWith("twin");
  if (byId("jobs").hidden) return;
  const query = element("code", {}, contrast.jobs_query.replace("STEPS", job.steps).replace("START", job.start));
  const rows = tables.jobs.filter((row) => row.start === job.start && isShown(row.verdict)).map((row) => jobAt(row, job.steps));
  const unknown = verdicts.length - rows.length;
  const isAsked = tables.jobs.some((row) => row.verdict.contrast === chosen.contrast);
  const lacking = isAsked ? `${shownNumber(unknown)} cells have no answer for this start. ` : "This file has no answers for this contrast. ";
  fill("job-query", unknown ? lacking : "", isAsked ? "This command shows exact times and reasons: " : "This command computes them: ", query);
  if (!rows.length) return fill("job-answer"), fill("job-list"), (tables.curve = []);
  const tiles = grouped(rows, (row) => row.advice).sort((one, other) => other.length - one.length);
  const list = tiles.map((some) => element("li", { class: `tile advice-${some[0].advice.replace(" ", "-")}` }, element("strong", {}, shownNumber(some.length)), ` ${some[0].advice}`));
  const isRace = Boolean(rows[0].best);
  fill("job-answer", isRace ? raceTable(rows) : element("ul", { class: "tiles", "aria-label": "Cells by advice" }, ...list));
  const isOpened = rows.length <= MOST_OPENED && !isRace;
  fill("job-list", ...(isOpened ? [jobTable(rows)] : tiles.map((some) => lazily([`${some[0].advice}: ${shownNumber(some.length)} ${isRace ? "compared" : "cells"}`], () => [jobTable(some)]))));
  const known = rows.some((row) => row.cell === job.cell) ? job.cell : largest(rows).cell;
  setCurve(known);
}

const largest = (rows) => rows.reduce((one, other) => (Math.abs(Math.log(other.job_ratio)) > Math.abs(Math.log(one.job_ratio)) && other.loop_kind === "closed" ? other : one));

// Makes curves of the configs that were measured in a cell. A race shows only its own configs.
function setCurve(cell) {
  job.cell = cell;
  const isRace = (contrast) => report.contrasts[contrast].name.startsWith("race:");
  const isOfCurve = ({ contrast }) => (isRace(chosen.contrast) ? contrast === chosen.contrast : !isRace(contrast));
  const rows = tables.jobs.filter((row) => row.start === job.start && row.verdict.cell === cell && isOfCurve(row.verdict));
  tables.curve = rows.flatMap((row) => {
    const { contrast, line } = row.verdict;
    const isAlone = rows.filter((other) => other.verdict.contrast === contrast).length === 1;
    const setting = isRace(contrast) ? "" : report.contrasts[contrast].name.replace(/: .* → /, "=");
    const config = brief((setting + (isAlone && setting ? "" : line.slice(cells[cell].line.length))).trim());
    const crossing = { crossing: row.break_even_steps, crossing_low: row.break_even_low, crossing_high: row.break_even_high };
    return row.steps.map((steps, place) => ({
      ...jobAt(row, steps),
      config,
      key: row.answer,
      contrast: chosen.contrast, // so that every curve is shown
      ...(place ? {} : crossing),
      ...{ baseline_time: shownTime(row.baseline_s[place]), candidate_time: shownTime(row.candidate_s[place]) },
    }));
  });

  // fits the axis to long jobs, because short jobs can differ very much
  const reach = Math.max(...tables.curve.filter(({ steps }) => steps >= job.steps).map((row) => Math.abs(Math.log(row.job_ratio))));
  job.reach = Math.exp(Math.min(Math.log(4), Math.max(Math.log(1.1), 1.5 * reach)));
  byId("heading-jobs").textContent = `A job's time against its steps: ${cells[cell].label}`;
}

function showCurve(cell) {
  setCurve(cell);
  byId("chart-jobs").parentElement.scrollIntoView({ block: "nearest" });
  return showFigure(report.figures.find(({ name }) => name === "jobs"));
}

function showJobForm() {
  const steps = element("input", { id: "job-steps", type: "number", min: 100, max: 1000000, step: 100, value: job.steps });
  steps.addEventListener("input", () => {
    job.steps = Math.min(1e6, Math.max(100, Number(steps.value) || job.steps));
    showJobs();
  });
  const start = selectOf("start", "that starts", Object.entries(STARTS), (value) => {
    job.start = value;
    return show();
  });
  start.lastChild.value = job.start;
  fill("job", element("label", { for: steps.id }, "A job of", steps, "steps in one process"), start);
  byId("job").addEventListener("submit", (event) => event.preventDefault());
}
