// The controls above the plot: native form elements, so that every one works from the keyboard.
import {MEASURES} from './data.js';
import {element, short} from './format.js';

function select(label, key, options, state, changed) {
  const box = element('select', {id: `filter-${key}`, name: key});
  for (const [value, text] of options) {
    box.append(element('option', {value, selected: state[key] === value}, short(text, 90)));
  }
  box.addEventListener('change', () => changed({[key]: box.value}));
  return element('label', {}, element('span', {}, label), box);
}

function radios(label, key, options, state, changed) {
  const group = element('fieldset', {}, element('legend', {}, label));
  for (const [value, text] of options) {
    const box = element('input', {type: 'radio', name: key, value, checked: state[key] === value});
    box.addEventListener('change', () => changed({[key]: value}));
    group.append(element('label', {}, box, text));
  }
  return group;
}

function checks(label, key, options, state, changed) {
  const group = element('fieldset', {}, element('legend', {}, label));
  for (const option of options) {
    const box = element('input', {type: 'checkbox', name: key, value: option, checked: state[key].has(option)});
    box.addEventListener('change', () => {
      const chosen = new Set(state[key]);
      box.checked ? chosen.add(option) : chosen.delete(option);
      changed({[key]: chosen});
    });
    group.append(element('label', {}, box, short(option, 30)));
  }
  return group;
}

/** Fills the form. `changed` is called with the part of the state that the user changed. */
export function buildFilters(form, data, state, changed) {
  form.addEventListener('submit', event => event.preventDefault());
  const text = element('input', {type: 'search', id: 'filter-text', name: 'text', value: state.text,
    placeholder: 'words of its name'});
  text.addEventListener('input', () => changed({text: text.value}));
  const all = [['all', 'all']];
  form.append(
    select('Problem', 'problem', [...all, ...data.problems.map(each => [String(each.index), each.title])],
      state, changed),
    select('Precision', 'precision', [...all, ...data.precisions.map(each => [each, each])], state, changed),
    select('Machine', 'machine', [...all, ...[...data.machines.values()].map(each =>
      [each.id, `${each.id}: ${each.name}`])], state, changed),
    element('label', {}, element('span', {}, 'Variant'), text),
    radios('Measure', 'measure', Object.entries(MEASURES).map(([key, each]) => [key, each.title]), state, changed),
    radios('Axis', 'scale', [['log', 'logarithmic'], ['linear', 'linear']], state, changed),
    checks('Kind', 'kinds', data.kinds, state, changed),
    checks('Answer', 'statuses', data.statuses, state, changed));
}
