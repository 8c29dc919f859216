// One row in full: figures, raw samples, and where they are from.
import {MEASURES, samplesOf} from './data.js';
import {element, figure, linkTo, plural, short, worth} from './format.js';

const SVG = 'http://www.w3.org/2000/svg';

function drawn(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  return made;
}

/** All samples on a line from the least to the greatest, the interval as a bar below them. */
function strip({value, low, high}, samples) {
  const least = Math.min(low, ...samples), most = Math.max(high, ...samples);
  const at = number => 4 + 292 * (most > least ? (number - least) / (most - least) : 0.5);
  const picture = drawn('svg', {viewBox: '0 0 300 34', role: 'img', class: 'strip',
    'aria-label': `${samples.length} samples from ${figure(least)} to ${figure(most)}`});
  for (const sample of samples) {
    picture.append(drawn('line', {x1: at(sample), x2: at(sample), y1: 3, y2: 18}));
  }
  picture.append(drawn('line', {x1: at(low), x2: at(high), y1: 25, y2: 25, class: 'interval'}),
    drawn('circle', {cx: at(value), cy: 25, r: 4}));
  return picture;
}

function facts(pairs) {
  const list = element('dl');
  for (const [name, text] of pairs) {
    if (text !== '' && text !== null && text !== undefined) {
      list.append(element('dt', {}, name), element('dd', {}, short(text, 600)));
    }
  }
  return list;
}

export function intervalText(figures) {
  if (!figures || figures.low === figures.high) {
    return '';
  }
  return `${figure(figures.low)} – ${figure(figures.high)}${figures.isRange ? ' (range)' : ''}`;
}

/** The phases of the recorded run as one bar, longest time first, each with its name and share. */
function phases(cell) {
  const parts = Object.entries(cell.phases_ms ?? {}).filter(([, ms]) => Number.isFinite(ms) && ms > 0)
    .sort(([, a], [, b]) => b - a);
  const whole = parts.reduce((sum, [, ms]) => sum + ms, 0);
  if (!parts.length) {
    return [];
  }
  const bar = element('div', {class: 'phases', role: 'img',
    'aria-label': parts.map(([name, ms]) => `${short(name, 30)} ${Math.round(100 * ms / whole)} %`).join(', ')});
  const list = element('ul', {class: 'phase-names'});
  parts.forEach(([name, ms], place) => {
    const part = element('span', {class: `phase-${place % 4}`});
    part.style.width = `${100 * ms / whole}%`;
    bar.append(part);
    list.append(element('li', {}, element('i', {class: `phase-${place % 4}`, 'aria-hidden': 'true'}),
      `${short(name, 30)}: ${figure(ms)} ms, ${Math.round(100 * ms / whole)} %`));
  });
  return [element('h4', {}, 'Phases of one recorded run'), bar, list];
}

function approximation(cell) {
  const {labels_differ: labels, objective_gap: gap} = cell.approximate ?? {};
  return [labels === undefined ? '' : `${figure(100 * labels)} % of labels differ`,
    gap === undefined ? '' : `objective ${figure(gap)} off, relatively`].filter(Boolean).join('; ');
}

/** `open` is called with the name of a variant whose section is wanted. */
export function showDetail(box, row, state, data, open) {
  const {cell} = row;
  const machine = data.machines.get(row.machine);
  const figures = row.figures[state.measure];
  const samples = figures ? samplesOf(row, state.measure) : [];
  const measures = Object.entries(MEASURES).map(([key, measure]) => {
    const each = row.figures[key];
    return [measure.unit, each && `${worth(each)}${intervalText(each) && `, ${intervalText(each)}`}`];
  });
  box.replaceChildren(
    element('h3', {title: row.variant.slice(0, 300)}, linkTo(row.variant, open, 120)),
    element('p', {class: `answer ${row.status}`}, row.answer + (row.quick ? ', of a quick run' : '')),
    facts([['problem', row.problem.title], ...measures,
      ['file', data.variants.get(row.variant)?.file], ['iterations', figure(cell.iterations)], ['bound set by', cell.limit],
      ['differs', approximation(cell)], ['other work', row.reasons.join('; ')], ['message', cell.message]]));
  if (samples.length) {
    box.append(element('h4', {}, `${plural(samples.length, 'raw sample')}, ${MEASURES[state.measure].title}`),
      strip(figures, samples));
  }
  box.append(...phases(cell));
  box.append(element('h4', {}, 'Where it is from'),
    facts([['machine', machine && `${machine.id}: ${machine.name}`], ['threads', cell.threads],
      ['rounds', cell.rounds], ['date', cell.time], ['ledger', cell.ledger], ['cell', cell.name]]));
}
