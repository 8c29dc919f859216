// The ledgers' cells as rows of the page: one object each, with the figures of every measure.

/** What a time can be of. `field` is the ledger's own figure, `samples` what its samples are of. */
export const MEASURES = {
  iteration: {title: 'per iteration', unit: 'ms per iteration', field: 'ms_per_iteration', samples: 'iteration'},
  run: {title: 'per run', unit: 'ms per run', field: 'median_ms', samples: 'run', counts: true},
  whole: {title: 'whole answer', unit: 'ms, from points in host memory to labels there', field: 'whole_ms',
    samples: 'whole', counts: true},
  bound: {title: '% of the model bound', unit: '% of the model bound', field: 'percent_of_limit', samples: 'iteration',
    more: true},
  quality: {title: 'to within 1 %', unit: 'ms from the problem’s own start until the inertia is within 1 % of the least known',
    field: 'quality_ms', samples: 'none'},
};

export const STATUSES = ['right', 'approximate', 'wrong', 'refused', 'failed'];

const KINDS = {
  serial: 'plain C++', eigen: 'Eigen', openmp: 'OpenMP', simd: 'SIMD', cuda: 'CUDA', python: 'Python',
};

function statusOf(cell) {
  if (cell.status === 'ok') {
    return cell.approximate ? 'approximate' : 'right';
  }
  if (cell.status === 'wrong') {
    return 'wrong';
  }
  return ['refused', 'unavailable'].includes(cell.status) ? 'refused' : 'failed';
}

// A cell that did not run names no toolchain; its file's folder does.
function kindOf(cell, variant) {
  const part = cell.backend || variant?.file.split('/')[1] || 'other';
  return KINDS[part] ?? part;
}

/** The raw samples of a measure, of all rounds. */
export function samplesOf(row, name) {
  const {cell} = row, measure = MEASURES[name];
  if (measure.samples === 'none') {
    return []; // it is made of a recorded run
  }
  const runs = (cell.samples?.[measure.samples === 'whole' ? 'whole' : 'run'] ?? []).flat();
  if (measure.samples !== 'iteration') {
    return runs;
  }
  const passes = [cell.samples?.passes ?? 1].flat(2); // one number where all made as many
  const times = runs.map((ms, place) => ms / Math.max(1, passes[passes.length > 1 ? place : 0]));
  return measure.more ? times.map(ms => 100 * cell.limit_ms_per_iteration / ms).filter(Number.isFinite) : times;
}

/** The value of a measure with its interval, or null where the cell has none. */
function figuresOf(cell, measure) {
  const value = cell[measure.field];
  if (!Number.isFinite(value)) {
    return null;
  }
  const [low, high, isRange] = cell.intervals?.[measure.samples] ?? [value, value, false];
  if (!measure.more) {
    return {value, low, high, isRange};
  }
  const share = ms => 100 * cell.limit_ms_per_iteration / ms; // a shorter time is a larger share
  return cell.intervals ? {value, low: share(high), high: share(low), isRange}
    : {value, low: value, high: value, isRange: false};
}

function rowOf(cell, id, data) {
  const problem = data.problems[cell.problem];
  const row = {
    id, cell, problem, problemIndex: cell.problem,
    variant: cell.variant, precision: cell.precision, kind: kindOf(cell, data.known.get(cell.variant)), status: statusOf(cell),
    machine: cell.machine, threads: cell.threads, quick: cell.quick === true,
    reasons: [...(cell.other_work ?? []), ...(cell.other_iterations ? [cell.other_iterations] : [])],
    search: `${cell.variant}\n${cell.name}`.toLowerCase(), figures: {},
  };
  for (const [name, measure] of Object.entries(MEASURES)) {
    row.figures[name] = figuresOf(cell, measure); // samples are many, and made when they are asked for
  }
  row.answer = ['refused', 'failed'].includes(row.status) ? cell.status : row.status;
  row.date = (cell.time ?? '').slice(0, 10);
  return row;
}

/** "article004 n=100k: 100000 × 2, k = 5, 300 iterations". */
function titleOf(problem) {
  const size = problem.n ? ` ${problem.n} × ${problem.d},` : '';
  const stop = problem.stop === 'iterations' ? plainly(problem.max_iterations) + ' iterations'
    : `stop at ${plainly(problem.stop)}`;
  return `${problem.table || 'ad hoc'} ${plainly(problem.id ?? problem.data)}:${size} k = ${plainly(problem.k)}, ` +
    `${problem.family === 'fcm' ? 'fuzzy c-means' : 'k-means'}, ${stop}`;
}

function plainly(value) {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : JSON.stringify(value ?? '');
}

/** All rows, the best by a measure first, those without a figure last. */
function ordered(rows, name) {
  const sign = MEASURES[name].more ? -1 : 1;
  const timed = rows.filter(row => row.figures[name]);
  timed.sort((a, b) => sign * (a.figures[name].value - b.figures[name].value));
  return [...timed, ...rows.filter(row => !row.figures[name])];
}

/** The data of the page: `rows`, `problems`, `variants` by name, `machines` by id, `kinds`. */
export function load() {
  const data = JSON.parse(document.getElementById('data').textContent);
  data.known = new Map(data.variants.map(each => [each.name, each]));
  const rows = data.cells.map((cell, id) => rowOf(cell, id, data));
  data.problems.forEach((problem, index) => {
    problem.index = index;
    problem.title = titleOf(problem);
  });
  const orders = {};
  const seen = key => [...new Set(rows.map(row => row[key]))];
  const order = Object.values(KINDS);
  return {
    rows, inOrder: name => orders[name] ??= ordered(rows, name), edited: data.edited, version: data.version,
    judged: data.judged ?? '',
    problems: data.problems.toSorted((a, b) => a.title.localeCompare(b.title, 'en', {numeric: true})),
    variants: data.known, verdicts: data.verdicts ?? [],
    machines: new Map(data.machines.map(each => [each.id, each])),
    kinds: seen('kind').sort((a, b) => (order.indexOf(a) + 99) % 99 - (order.indexOf(b) + 99) % 99),
    precisions: seen('precision').sort(),
    statuses: STATUSES.filter(status => rows.some(row => row.status === status)),
  };
}
