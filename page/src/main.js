// The page of `clusterbench report`: state in, plot, table, warnings and variants out.
import {load} from './data.js';
import {showDetail} from './detail.js';
import {buildFilters} from './filters.js';
import {element, listed, plural, short} from './format.js';
import {Plot} from './plot.js';
import {chosenRows, readState, writeState} from './state.js';
import {Rows} from './table.js';
import {Variants} from './variants.js';
import {showVerdicts} from './verdicts.js';
import {warningsOf} from './work.js';

const at = id => document.getElementById(id);

function showMachines(data) {
  for (const machine of data.machines.values()) {
    at('machines').append(element('dt', {}, `${machine.id}: ${machine.name}`),
      element('dd', {}, `${machine.first_date ? `${machine.first_date} to ` : ''}${machine.date ?? 'no date'}; ` +
        machine.ledgers.map(name => short(name, 200)).join(', ')));
  }
}

function showWarnings(data, rows, state) {
  const quick = rows.filter(row => row.quick).length;
  const sentences = [
    ...data.edited.map(sentence => `Not as it was written: ${short(sentence, 300)}`),
    ...(quick ? [`Quick run: ${plural(quick, 'row')} of small sizes with little sampling. Quote none of them.`] : []),
    ...warningsOf(rows.filter(row => row.figures[state.measure]), state.measure),
  ];
  at('warnings').replaceChildren(...sentences.map(sentence => element('li', {class: 'warning'}, sentence)));
  document.body.classList.toggle('quick', quick > 0);
}

function notes(rows, plotted, measure) {
  const timed = rows.filter(row => row.figures[measure]).length;
  const without = new Map();
  for (const row of rows.filter(each => !each.figures[measure])) {
    without.set(row.cell.status, (without.get(row.cell.status) ?? 0) + 1);
  }
  const parts = [];
  if (plotted < timed) parts.push(`The best ${plotted} of ${timed} rows; the table has all.`);
  if (without.size) {
    parts.push(`Without a figure: ${listed([...without].map(([status, n]) => `${n} ${short(status, 30)}`))}.`);
  }
  return parts.join(' ');
}

function themes() {
  const root = document.documentElement;
  at('theme').addEventListener('click', () => {
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
  });
}

function start() {
  const data = load();
  let state = readState(data);
  at('summary').textContent = `${plural(data.rows.length, 'row')}, ${plural(data.problems.length, 'problem')}, ` +
    `${plural(data.variants.size, 'known variant')}; clusterbench ${data.version}. This file loads nothing.`;
  at('judged').textContent = data.judged; // what `clusterbench judge` has printed
  at('judged').hidden = !data.judged;
  const plot = new Plot(at('plot'), at('legend'), data.kinds, row => tell(row));
  const tell = row => {
    showDetail(at('detail'), row, state, data, name => variants.open(name));
    plot.mark(row);
  };
  const table = new Rows(at('rows'), () => state, tell);
  const variants = new Variants(at('variants'), data);

  const show = async () => {
    const began = performance.now();
    const rows = chosenRows(state, data);
    showWarnings(data, rows, state);
    table.show(rows);
    const plotted = await plot.show(rows, state);
    at('plot-note').textContent = notes(rows, plotted, state.measure);
    at('rows-note').textContent = plural(rows.length, 'row') + '. A heading sorts; a line shows its row in full.';
    variants.show(rows);
    document.body.dataset.shown = String(rows.length);
    document.body.dataset.tookMs = String(performance.now() - began);
  };
  const changed = async part => {
    state = {...state, ...part};
    writeState(state, data);
    if (part.measure) {
      table.orderByMeasure(part.measure);
    }
    await show();
  };
  at('detail').append(element('p', {class: 'note'}, 'Point at a dot or a line, or go to a line with the keyboard: ' +
    'its figures, its raw samples and where they are from stand here.'));
  buildFilters(at('filters'), data, state, changed);
  showMachines(data);
  showVerdicts(at('verdicts-section'), at('verdicts'), data.verdicts);
  themes();
  table.orderByMeasure(state.measure);
  show().then(() => {
    document.body.dataset.ready = 'true';
    document.body.dataset.openedMs = String(performance.now());
  });
}

start();
