// Figures and elements. All text goes through textContent.

/** Four digits, and no exponent before a million, as the program's tables have them. */
export function figure(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) {
    return '';
  }
  const size = Math.abs(value);
  return size >= 1000 && size < 1e6 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}

/** A figure with as many digits as its interval bears out: two at 10 %, three at 1 %, at most four. */
export function worth({value, low, high}) {
  const width = (high - low) / Math.abs(value);
  const digits = width > 0 ? Math.min(4, Math.max(2, Math.ceil(-Math.log10(width) - 1e-9) + 1)) : 3;
  const rounded = Number(value.toPrecision(digits)), size = Math.abs(rounded);
  if (size >= 1e6 || size !== 0 && size < 1e-4) {
    return String(rounded);
  }
  return size === 0 ? '0' : rounded.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
}

/** An element with attributes and children; a child that is no element is text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) {
      made.setAttribute(key, '');
    } else if (value !== false && value !== undefined) {
      made.setAttribute(key, value);
    }
  }
  made.append(...children);
  return made;
}

/** At most so many characters, on one line. */
export function short(text, most = 60) {
  const line = String(text).replace(/\s+/g, ' ');
  return line.length > most ? line.slice(0, most - 1) + '…' : line;
}

/** A variant's name that opens its section. */
export function linkTo(name, open, most) {
  const link = element('button', {type: 'button', class: 'link'}, short(name, most));
  link.addEventListener('click', () => open(name));
  return link;
}

export function plural(count, word) {
  return `${count} ${word}${count === 1 ? '' : 's'}`;
}

/** "a, b and c". */
export function listed(words) {
  const all = [...words];
  return all.length < 2 ? all.join('') : `${all.slice(0, -1).join(', ')} and ${all.at(-1)}`;
}
