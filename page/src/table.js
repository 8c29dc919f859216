// The rows as a table that sorts. Of 10,000 only those in sight are in the document, between two spacers.
import {MEASURES} from './data.js';
import {intervalText} from './detail.js';
import {element, figure, short, worth} from './format.js';
import {reasonsOf} from './work.js';

const ROW_HEIGHT = 26; // as in page.css
const AROUND = 6;     // rows drawn above and below those in sight
const MOST_PRINTED = 500;

const words = (title, value, more = {}) => ({title, value, text: row => short(value(row) ?? '', 90), ...more});
const numbers = (title, value) => ({title, value, text: row => figure(value(row)), number: true});
const figureOf = measure => row => row.figures[measure]?.value;
// A probe is worth two digits.
const textOf = (figures, measure) => !figures ? ''
  : measure === 'bound' ? figure(Number(figures.value.toPrecision(2))) : worth(figures);
const times = (title, measure) => ({title, value: figureOf(measure), measure, number: true,
  text: row => textOf(row.figures[measure], measure)});

function columnsOf(current) {
  return [
    words('variant', row => row.variant, {head: true}),
    words('answer', row => row.answer),
    times('ms per iteration', 'iteration'),
    times('ms per run', 'run'),
    times('ms whole answer', 'whole'),
    times('% of the model bound', 'bound'),
    times('ms to within 1 %', 'quality'),
    words('interval', row => intervalText(row.figures[current().measure])),
    numbers('iterations', row => row.cell.iterations),
    words('precision', row => row.precision),
    words('kind', row => row.kind),
    numbers('threads', row => row.threads),
    words('problem', row => row.problem.title),
    words('machine', row => row.machine),
    words('date', row => row.date),
    words('other work', row => reasonsOf(row, current().measure).join('; ')),
    words('message', row => row.cell.message),
    words('ledger', row => row.cell.ledger),
  ];
}

/** Sorted; what is not known stands at the end, whichever way is up. */
function sorted(rows, column, descending) {
  const sign = descending ? -1 : 1;
  const keyed = rows.map(row => [column.value(row), row]);
  const known = keyed.filter(([key]) => key !== undefined && key !== null && key !== '');
  const unknown = keyed.filter(([key]) => key === undefined || key === null || key === '');
  known.sort(([a], [b]) => a < b ? -sign : a > b ? sign : 0);
  return [...known, ...unknown].map(([, row]) => row);
}

export class Rows {
  /** onRow is called with the row that the pointer or the focus is on; current() gives the state. */
  constructor(frame, current, onRow) {
    Object.assign(this, {frame, current, onRow, rows: [], drawn: '', all: false, columns: columnsOf(current)});
    this.body = element('tbody');
    this.heads = this.columns.map(column => this.heading(column));
    this.table = element('table', {}, element('thead', {}, element('tr', {}, ...this.heads)), this.body);
    frame.append(this.table);
    frame.addEventListener('scroll', () => this.draw(), {passive: true});
    const tell = event => {
      const line = event.target.closest?.('tr[data-place]');
      if (line) {
        onRow(this.rows[line.dataset.place]);
      }
    };
    this.body.addEventListener('mouseover', tell);
    this.body.addEventListener('focusin', tell);
    this.body.addEventListener('keydown', event => this.step(event));
    addEventListener('beforeprint', () => this.drawAll(true));
    addEventListener('afterprint', () => this.drawAll(false));
  }

  heading(column) {
    const button = element('button', {type: 'button'}, column.title);
    button.addEventListener('click', () => {
      const again = this.by === column;
      this.order(column, again ? !this.descending : column.measure === 'bound');
      this.arrange();
    });
    return element('th', {scope: 'col', class: column.number ? 'number' : 'text'}, button);
  }

  order(column, descending) {
    this.by = column;
    this.descending = descending;
    this.columns.forEach((each, place) => each === column
      ? this.heads[place].setAttribute('aria-sort', descending ? 'descending' : 'ascending')
      : this.heads[place].removeAttribute('aria-sort'));
  }

  orderByMeasure(measure) {
    this.order(this.columns.find(column => column.measure === measure), MEASURES[measure].more === true);
  }

  show(rows) {
    this.chosen = rows;
    this.arrange();
  }

  arrange() {
    // The rows come in the order of the measure.
    const inOrder = this.by.measure === this.current().measure && this.descending === (this.by.measure === 'bound');
    this.rows = inOrder ? this.chosen : sorted(this.chosen, this.by, this.descending);
    this.table.setAttribute('aria-rowcount', this.rows.length + 1);
    this.frame.scrollTop = 0;
    this.drawn = '';
    this.draw();
  }

  drawAll(all) {
    this.all = all;
    this.drawn = '';
    this.draw();
  }

  draw() {
    const count = this.rows.length;
    const inSight = Math.ceil((this.frame.clientHeight || 600) / ROW_HEIGHT);
    const top = Math.floor(this.frame.scrollTop / ROW_HEIGHT);
    const from = this.all ? 0 : Math.max(0, Math.min(top, count - inSight) - AROUND);
    const to = this.all ? Math.min(count, MOST_PRINTED) : Math.min(count, top + inSight + AROUND);
    if (this.drawn === `${from} ${to}`) {
      return;
    }
    this.drawn = `${from} ${to}`;
    const focused = document.activeElement?.dataset?.place;
    const lines = [];
    for (let place = from; place < to; ++place) {
      lines.push(this.line(place));
    }
    this.body.replaceChildren(this.spacer(from), ...lines, this.spacer(this.all ? 0 : count - to));
    if (focused !== undefined) {
      this.lineAt(focused)?.focus({preventScroll: true});
    }
  }

  spacer(lines) {
    const made = element('tr', {'aria-hidden': 'true', class: 'spacer'});
    made.style.height = `${lines * ROW_HEIGHT}px`;
    return made;
  }

  line(place) {
    const row = this.rows[place];
    const made = element('tr', {tabindex: 0, 'data-place': place, 'aria-rowindex': place + 2,
      class: `is-${row.status}${row.quick ? ' is-quick' : ''}`});
    for (const column of this.columns) {
      made.append(element(column.head ? 'th' : 'td', {...(column.head ? {scope: 'row'} : {}),
        class: column.number ? 'number' : 'text'}, column.text(row)));
    }
    return made;
  }

  lineAt(place) {
    return this.body.querySelector(`tr[data-place="${place}"]`);
  }

  // Up and down go from line to line.
  step(event) {
    const way = {ArrowDown: 1, ArrowUp: -1}[event.key];
    const place = Number(event.target.dataset?.place) + way;
    if (!(place >= 0 && place < this.rows.length)) {
      return;
    }
    event.preventDefault();
    if (!this.lineAt(place)) {
      this.draw();
    }
    this.lineAt(place)?.focus();
  }
}
