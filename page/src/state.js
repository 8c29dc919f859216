// What the user chose. It stands in the address, so that a link to a view can be passed on.
import {MEASURES} from './data.js';

export function initialState(data) {
  const timed = new Set(data.rows.filter(row => row.figures.iteration).map(row => row.problemIndex));
  const problem = data.problems.find(each => timed.has(each.index)) ?? data.problems[0];
  const first = data.rows.find(row => row.problemIndex === problem?.index);
  return {
    problem: first ? String(first.problemIndex) : 'all',
    precision: first?.precision ?? 'all',
    machine: 'all', text: '', measure: 'iteration', scale: 'log',
    kinds: new Set(data.kinds), statuses: new Set(data.statuses),
  };
}

/** The state of the address; what it does not say, or says of other data, stays as it begins. */
export function readState(data) {
  const state = initialState(data);
  const words = new URLSearchParams(location.hash.slice(1));
  const take = (key, known) => {
    if (words.has(key) && known.includes(words.get(key))) {
      state[key] = words.get(key);
    }
  };
  take('problem', ['all', ...data.problems.map(problem => String(problem.index))]);
  take('precision', ['all', ...data.precisions]);
  take('machine', ['all', ...data.machines.keys()]);
  take('measure', Object.keys(MEASURES));
  take('scale', ['log', 'linear']);
  state.text = words.get('text') ?? '';
  for (const [key, known] of [['kinds', data.kinds], ['statuses', data.statuses]]) {
    if (words.has(`no-${key}`)) {
      const left_out = words.get(`no-${key}`).split('\n');
      state[key] = new Set(known.filter(each => !left_out.includes(each)));
    }
  }
  return state;
}

export function writeState(state, data) {
  const begin = initialState(data);
  const words = new URLSearchParams();
  for (const key of ['problem', 'precision', 'machine', 'text', 'measure', 'scale']) {
    if (state[key] !== begin[key]) {
      words.set(key, state[key]);
    }
  }
  for (const key of ['kinds', 'statuses']) {
    const missing = data[key].filter(each => !state[key].has(each));
    if (missing.length) {
      words.set(`no-${key}`, missing.join('\n'));
    }
  }
  const text = words.toString();
  history.replaceState(null, '', text ? `#${text}` : location.pathname + location.search);
}

/** The rows that the state asks for, the best by its measure first. */
export function chosenRows(state, data) {
  const problem = state.problem === 'all' ? null : Number(state.problem);
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  return data.inOrder(state.measure).filter(row =>
    (problem === null || row.problemIndex === problem) &&
    (state.precision === 'all' || row.precision === state.precision) &&
    (state.machine === 'all' || row.machine === state.machine) &&
    state.kinds.has(row.kind) && state.statuses.has(row.status) &&
    words.every(word => row.search.includes(word)));
}
