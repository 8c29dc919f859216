// Whether rows did equal work, so that they may stand on one axis; and if not, sentences that say so.
import {MEASURES} from './data.js';
import {listed, plural, short} from './format.js';

// What one pass costs depends on these.
const PASS = ['family', 'data', 'weights', 'take', 'n', 'd', 'k', 'fuzzifier'];
// How many passes there are depends on these.
const STOP = {stop: 'stop rules', max_iterations: 'bounds on iterations', init: 'initial states'};

const NONE = [];
const problemsOf = rows => [...new Set(rows.map(row => row.problem))];
const values = (problems, of) => new Set(problems.map(problem => JSON.stringify(of(problem) ?? null)));

/** Why times of this row are not those of its problem's other rows; empty if they are. */
export function reasonsOf(row, measure) {
  const {cell} = row;
  if (!cell.other_work?.length && !cell.other_iterations) {
    return NONE;
  }
  const other = [...(cell.other_work ?? [])];
  if (MEASURES[measure].counts && cell.other_iterations) {
    other.push(cell.other_iterations);
  }
  return other;
}

/** Of rows that have a figure of the measure: sentences, none if all did the same work. */
export function warningsOf(rows, measure) {
  const sentences = [];
  const problems = problemsOf(rows);
  if (values(problems, problem => PASS.map(key => problem[key])).size > 1) {
    sentences.push(`Unequal work: ${plural(problems.length, 'problem')} on one axis, and a pass over one is not a pass over another.`);
  }
  if (MEASURES[measure].counts) {
    const differ = Object.entries(STOP).filter(([key]) => values(problems, problem => problem[key]).size > 1);
    if (differ.length) {
      sentences.push(`Unequal work: different ${listed(differ.map(([, name]) => name))}.`);
    }
    const counts = rows.map(row => row.cell.iterations).filter(Number.isFinite);
    if (new Set(counts).size > 1) {
      const [least, most] = counts.reduce(([low, high], n) => [Math.min(low, n), Math.max(high, n)],
        [Infinity, -Infinity]);
      sentences.push(`Unequal work: runs of ${least} to ${most} iterations.`);
    }
  }
  const precisions = new Set(rows.map(row => row.precision));
  if (precisions.size > 1) {
    sentences.push(`Unequal work: ${listed(precisions)} on one axis.`);
  }
  const odd = rows.filter(row => reasonsOf(row, measure).length);
  if (odd.length) {
    const reasons = new Set(odd.flatMap(row => reasonsOf(row, measure)));
    const named = [...reasons].slice(0, 3).map(reason => short(reason, 90));
    const more = reasons.size > 3 ? `; ${plural(reasons.size - 3, 'other reason')}` : '';
    sentences.push(`Unequal work: ${plural(odd.length, 'row')} marked ≠ did other work: ${named.join('; ')}${more}.`);
  }
  return sentences;
}
