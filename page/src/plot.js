// The dot plot: one line for each row, its interval, and on demand its raw samples.
import vegaEmbed from 'vega-embed';
import {MEASURES, samplesOf} from './data.js';
import {element, short} from './format.js';
import {reasonsOf} from './work.js';

const ERRORS = 1; // Vega's level: that an empty plot has no extent is none
const MOST_LINES = 80; // more cannot be read, and the table has them all
// Okabe and Ito's colours, told apart by most colour-blind eyes, on light and on dark; black is the text's.
const COLOURS = ['currentColor', '#d55e00', '#009e73', '#e69f00', '#3d8fd1', '#cc79a7', '#56b4e9', '#b8a800'];
// What the labels are measured with, and so what they are written in.
const FONT = '"DejaVu Sans", Verdana, sans-serif';
const SHAPES = {right: 'circle', approximate: 'diamond', wrong: 'cross'};

const coloursOf = kinds => kinds.map((_, place) => COLOURS[place % COLOURS.length]);
const OUTLINES = {circle: 'M5 0a5 5 0 1 0 .01 0z', diamond: 'M5 -1L11 5L5 11L-1 5z', cross: 'M3 0h4v3h3v4h-3v3h-4v-3h-3v-4h3z'};

function entry(text, shape, colour) {
  const picture = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  picture.setAttribute('viewBox', '-1 -1 12 12');
  picture.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', OUTLINES[shape]);
  path.setAttribute('fill', colour);
  picture.append(path);
  return element('li', {}, picture, text);
}

function specification(measure, scale, kinds) {
  const x = field => ({field, type: 'quantitative', title: measure.unit, axis: {orient: 'top'},
    scale: {type: scale, domainMin: {expr: 'low_end'}, domainMax: {expr: 'high_end'}, nice: false, ...(scale === 'log' ? {} : {zero: false})}});
  const y = {field: 'line', type: 'nominal', sort: null, title: null,
    axis: {labelExpr: 'split(datum.value, "\\u001f")[1]', labelLimit: 330, domain: false, ticks: false, grid: true}};
  // The legend is a list of the page, which wraps where the library's would be cut.
  const colour = {field: 'kind', type: 'nominal', legend: null, scale: {domain: kinds, range: coloursOf(kinds)}};
  const shape = {field: 'status', type: 'nominal', legend: null,
    scale: {domain: Object.keys(SHAPES), range: Object.values(SHAPES)}};
  return {
    width: 'container', height: {step: 19}, autosize: {type: 'fit-x', contains: 'padding'},
    background: 'transparent',
    params: [{name: 'low_end', value: 1}, {name: 'high_end', value: 10}],
    data: {name: 'lines'},
    encoding: {y},
    layer: [
      {mark: {type: 'rule', strokeWidth: 2, opacity: 0.75, clip: true},
        encoding: {x: x('low'), x2: {field: 'high'}, color: colour,
          strokeDash: {condition: {test: 'datum.isRange', value: [3, 3]}, value: []}}},
      {data: {name: 'samples'}, mark: {type: 'tick', thickness: 1, size: 15, opacity: 0.8, clip: true,
        color: 'currentColor'}, encoding: {x: x('value')}},
      {mark: {type: 'point', filled: true, opacity: 1, tooltip: null},
        encoding: {x: x('value'), color: colour, shape,
          size: {condition: {test: "datum.status === 'right'", value: 75}, value: 170}}},
    ],
    config: {
      font: FONT, view: {stroke: null},
      axis: {labelColor: 'currentColor', titleColor: 'currentColor', gridColor: 'currentColor', gridOpacity: 0.13,
        tickColor: 'currentColor', domainColor: 'currentColor', labelFontSize: 12, titleFontSize: 12,
        titleFontWeight: 'normal'},
    },
  };
}

/** What stands at a row's line: as short as tells the rows apart. */
function labelOf(row, several, measure) {
  const words = [short(row.variant, 45)];
  if (several.threads) words.push(`${row.threads} thr.`);
  if (several.precision) words.push(row.precision);
  if (several.machine) words.push(row.machine);
  if (several.problem) words.unshift(short(row.problem.id ?? row.problem.data, 20));
  if (row.status !== 'right') words.push(row.status);
  if (reasonsOf(row, measure).length) words.push('≠');
  return words.join(' · ');
}

function severalOf(rows) {
  const several = of => new Set(rows.map(of)).size > 1;
  return {
    threads: new Set(rows.map(row => row.machine)).size < new Set(rows.map(row => `${row.machine} ${row.threads}`)).size,
    precision: several(row => row.precision), machine: several(row => row.machine),
    problem: several(row => row.problemIndex),
  };
}

/** From a little below the least to a little above the greatest, of values and of intervals. */
function ends(lines, scale) {
  const numbers = lines.flatMap(line => [line.low, line.high, line.value]).filter(Number.isFinite);
  const least = Math.min(...numbers), most = Math.max(...numbers);
  if (!numbers.length) {
    return [0.1, 1];
  }
  return scale === 'log' ? [least / 1.15, most * 1.15] : [0, most * 1.05 || 1];
}

export class Plot {
  /** onRow is called with the row that the pointer is over. */
  constructor(target, legend, kinds, onRow) {
    Object.assign(this, {target, legend, kinds, onRow, view: null, form: '', lines: [], latest: 0});
  }

  /** Of rows in order, shows the first; returns how many it shows. */
  async show(rows, state) {
    const measure = MEASURES[state.measure];
    const sorted = rows.slice(0, MOST_LINES).filter(row => row.figures[state.measure]);
    const several = severalOf(sorted);
    this.lines = sorted.map((row, place) => {
      const {value, low, high, isRange} = row.figures[state.measure];
      return {line: `${place}\u001f${labelOf(row, several, state.measure)}`, id: row.id, kind: row.kind,
        status: row.status, value, low, high, isRange};
    });
    this.rows = new Map(sorted.map(row => [row.id, row]));
    this.state = state;
    const form = `${state.measure} ${state.scale}`;
    const turn = ++this.latest;
    if (form !== this.form) {
      await this.embed(specification(measure, state.scale, this.kinds), turn);
      if (turn !== this.latest) {
        return this.lines.length;
      }
      this.form = form;
    }
    this.marked = null;
    const [low, high] = ends(this.lines, state.scale);
    this.target.hidden = this.lines.length === 0;
    this.showLegend();
    this.view.data('samples', []).data('lines', this.lines).signal('low_end', low).signal('high_end', high).run();
    return this.lines.length;
  }

  /** The kinds and the answers that the lines have; a shape is explained where there are several. */
  showLegend() {
    const has = (key, value) => this.lines.some(line => line[key] === value);
    const colours = coloursOf(this.kinds);
    const shapes = Object.keys(SHAPES).filter(status => has('status', status));
    this.legend.replaceChildren(
      ...this.kinds.flatMap((kind, place) => has('kind', kind) ? [entry(short(kind, 30), 'circle', colours[place])] : []),
      ...(shapes.length > 1 || shapes[0] !== 'right' ? shapes : []).map(status => entry(status, SHAPES[status], 'currentColor')));
  }

  async embed(spec, turn) {
    const made = await vegaEmbed(this.target, spec, {
      renderer: 'svg', ast: true, tooltip: false, logLevel: ERRORS,
      actions: {export: true, source: false, compiled: false, editor: false},
    });
    if (turn !== this.latest) {
      made.finalize();
      return;
    }
    this.made?.finalize();
    this.made = made;
    this.view = made.view;
    this.view.addEventListener('mouseover', (event, item) => {
      const row = item?.datum && this.rows.get(item.datum.id);
      if (row) {
        this.mark(row);
        this.onRow(row);
      }
    });
  }

  /** Draws the raw samples of a row, if the row is in the plot. */
  mark(row) {
    if (this.marked === row || !this.view) {
      return;
    }
    this.marked = row;
    const line = this.lines.find(each => each.id === row.id);
    const samples = line ? samplesOf(row, this.state.measure) : [];
    this.view.data('samples', samples.map(value => ({line: line.line, value}))).run();
  }
}
