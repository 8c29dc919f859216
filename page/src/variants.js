// A section for each variant: what it is, its neighbours on the ladder, why it was refused, what it counted.
import {element, figure, linkTo, listed, plural, short} from './format.js';

const MOST_SECTIONS = 300;

function line(list, name, ...content) {
  list.append(element('dt', {}, name), element('dd', {}, ...content));
}

/** Reasons with the number of cells that have them. */
function refusals(rows) {
  const counts = new Map();
  for (const row of rows) {
    if (['refused', 'failed', 'wrong'].includes(row.status)) {
      const text = `${row.cell.status}: ${row.cell.message || 'no message'}`;
      counts.set(text, (counts.get(text) ?? 0) + 1);
    }
  }
  return counts;
}

function counters(row) {
  const numbers = Object.entries({...row.cell.counters});
  const texts = numbers.filter(([, value]) => Number.isFinite(value)).map(([name, value]) =>
    `${short(name, 30)} ${figure(value)}`);
  if (Number.isFinite(row.cell.distances_avoided_percent)) {
    texts.push(`${figure(row.cell.distances_avoided_percent)} % of distances avoided`);
  }
  for (const [name, ms] of Object.entries(row.cell.phases_ms ?? {})) {
    if (Number.isFinite(ms)) {
      texts.push(`${short(name, 30)} ${figure(ms)} ms`);
    }
  }
  return texts.join(', ');
}

function fill(box, name, rows, data, open) {
  const known = data.variants.get(name) ?? {};
  const list = element('dl');
  line(list, 'idea', known.idea || 'not known here: neither built nor in the source tree');
  if (known.source) line(list, 'source', known.source);
  if (known.file) line(list, 'file', known.file);
  if (known.previous) line(list, 'improves on', linkTo(known.previous, open));
  const next = [...data.variants.values()].filter(each => each.previous === name).map(each => each.name);
  if (next.length) {
    line(list, 'improved on by', ...next.flatMap((each, place) => [place ? ', ' : '', linkTo(each, open)]));
  }
  for (const [text, count] of [...refusals(rows)].slice(0, 10)) {
    line(list, 'not right', `${plural(count, 'cell')}: ${short(text, 300)}`);
  }
  for (const row of rows.filter(each => counters(each)).slice(0, 8)) {
    line(list, 'counted', `${short(row.problem.id ?? '', 30)} ${row.precision}, ${row.machine}: ${counters(row)}`);
  }
  box.append(list);
}

export class Variants {
  constructor(target, data) {
    this.target = target;
    this.data = data;
    this.rows = Map.groupBy(data.rows, row => row.variant);
    this.names = '';
  }

  /** Sections of the variants of these rows; each is filled when it is opened. */
  show(rows) {
    const names = [...new Set(rows.map(row => row.variant))].sort();
    const sign = names.slice(0, MOST_SECTIONS).join('\n');
    if (sign === this.names && this.target.childElementCount) {
      return;
    }
    this.names = sign;
    this.sections = new Map();
    this.target.replaceChildren(...names.slice(0, MOST_SECTIONS).map(name => this.section(name)));
    if (names.length > MOST_SECTIONS) {
      this.target.append(element('p', {class: 'note'}, `${names.length - MOST_SECTIONS} more: filter for them.`));
    }
  }

  section(name) {
    const rows = this.rows.get(name) ?? [];
    const statuses = listed(new Set(rows.map(row => row.status)));
    const box = element('details', {}, element('summary', {}, element('b', {}, short(name)), ' ',
      element('span', {class: 'note'}, short(this.data.variants.get(name)?.idea ?? '', 110),
        ` (${plural(rows.length, 'row')}: ${statuses})`)));
    box.addEventListener('toggle', () => {
      if (box.open && box.childElementCount === 1) {
        fill(box, name, rows, this.data, other => this.open(other));
      }
    });
    this.sections.set(name, box);
    return box;
  }

  open(name) {
    if (!this.sections.has(name)) {
      const box = this.section(name);
      this.target.prepend(box);
    }
    const box = this.sections.get(name);
    box.open = true;
    box.scrollIntoView({block: 'nearest'});
    box.querySelector('summary').focus();
  }
}
