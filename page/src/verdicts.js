// What the articles printed beside what was measured here, with a verdict on each row.
import {element, figure, plural, short} from './format.js';

const HEADS = ['problem', 'printed as', 'variant', 'printed ×', '× here', 'verdict', 'because'];
const NUMBERS = new Set(['printed ×', '× here']);

function tableOf(article) {
  const lines = article.rows.map(row => {
    const texts = [row.problem, row.label, `${row.variant} ${row.precision}`, short2(row.published_speedup),
      short2(row.speedup), row.verdict, (row.reasons ?? []).join('; ')];
    return element('tr', {class: `verdict-${String(row.verdict).replace(/\W+/g, '-')}`}, ...texts.map((text, place) =>
      element('td', {class: NUMBERS.has(HEADS[place]) ? 'number' : 'text'}, short(text ?? '', 300))));
  });
  return element('table', {}, element('thead', {}, element('tr', {}, ...HEADS.map(head =>
    element('th', {scope: 'col', class: NUMBERS.has(head) ? 'number' : 'text'}, head)))), element('tbody', {}, ...lines));
}

function short2(value) {
  return Number.isFinite(value) ? figure(Number(value.toPrecision(3))) : '';
}

/** A section for each article; it stays hidden where the ledgers have no cell of one. */
export function showVerdicts(section, target, articles) {
  section.hidden = articles.length === 0;
  for (const article of articles) {
    const counts = new Map();
    article.rows.forEach(row => counts.set(row.verdict, (counts.get(row.verdict) ?? 0) + 1));
    target.append(element('details', {}, element('summary', {}, element('b', {}, article.table), ` ${short(article.title)} `,
      element('span', {class: 'note'}, `(speed-ups per ${article.per}; ${plural(article.rows.length, 'printed row')}: ` +
        `${[...counts].map(([word, count]) => `${count} ${word}`).join(', ')})`)), tableOf(article)));
  }
}
