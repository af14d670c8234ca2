// Comfort for a reader with a pointer; the report says everything without it.
(() => {
  'use strict';
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Columns of numbers begin with the largest, columns of words with A.
  const value = cell => {
    const said = cell.dataset.v ?? cell.textContent.replaceAll(',', '').trim();
    return said === '' || said === '–' || isNaN(said) ? null : Number(said);
  };
  for (const table of all('table.sortable')) {
    const heads = all('thead th', table), body = table.tBodies[0];
    const sort = (head, column) => {
      const rows = [...body.rows];
      const isWords = rows.every(row => value(row.cells[column]) === null);
      const falls = head.ariaSort ? head.ariaSort === 'ascending' : !isWords;
      heads.forEach(other => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', falls ? 'descending' : 'ascending');
      const sign = falls ? -1 : 1;
      rows.sort((a, b) => {
        if (isWords)
          return sign * a.cells[column].textContent.localeCompare(
            b.cells[column].textContent, undefined, {numeric: true});
        const x = value(a.cells[column]), y = value(b.cells[column]);
        return x === null || y === null ? (x === null) - (y === null) : sign * (x - y);
      });
      body.append(...rows);
    };
    heads.forEach((head, column) => {
      head.tabIndex = 0;
      head.addEventListener('click', () => sort(head, column));
      head.addEventListener('keydown', event => {
        if (event.key === 'Enter' || event.key === ' ') {
          event.preventDefault();
          sort(head, column);
        }
      });
    });
  }

  // One field for the plots and the table of a run.
  for (const run of all('.run .inside')) {
    const named = all('.filtered [data-name]', run).filter(part => !part.closest('svg'));
    if (named.length < 8) continue;
    const field = document.createElement('input');
    field.type = 'search';
    field.placeholder = 'Only destinations whose name contains…';
    field.setAttribute('aria-label', field.placeholder);
    field.addEventListener('input', () => {
      const wanted = field.value.toLowerCase();
      for (const part of named)
        part.hidden = !part.dataset.name.toLowerCase().includes(wanted);
    });
    run.prepend(field);
  }

  // The same moment in all plots of a run, with its values.
  const units = [[1e-3, 1e-6, 'µs'], [1, 1e-3, 'ms'], [120, 1, 's'], [7200, 60, 'min'],
                 [Infinity, 3600, 'h']];
  const seconds = v => {
    const [, size, unit] = units.find(([limit]) => v < limit);
    return `${Number((v / size).toPrecision(3))} ${v ? unit : 's'}`;
  };
  for (const group of all('.linked')) {
    const plots = all('svg[data-bins]', group).map(svg => {
      const lines = all('path[data-v]', svg).map(line => ({
        name: line.dataset.name, unit: line.dataset.unit, values: line.dataset.v.split(',')}));
      const rule = document.createElementNS(svg.namespaceURI, 'path');
      rule.setAttribute('class', 'rule');
      svg.append(rule);
      const note = svg.closest('figure').querySelector('figcaption span');
      return {svg, lines, rule, note, usual: note.textContent};
    });
    const clear = () => {
      for (const plot of plots) {
        plot.rule.removeAttribute('d');
        plot.note.textContent = plot.usual;
      }
    };
    const show = event => {
      const own = plots.find(plot => plot.svg.contains(event.target));
      if (!own) return clear();
      const {left, right, bins, interval} = own.svg.dataset;
      const box = own.svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * own.svg.viewBox.baseVal.width;
      const bin = Math.floor((x - left) / (right - left) * bins);
      if (bin < 0 || bin >= bins) return clear();
      for (const {svg, lines, rule, note} of plots) {
        const at = Number(left) + (bin + 0.5) / bins * (right - left);
        rule.setAttribute('d', `M${at} ${svg.dataset.top}V${svg.dataset.bottom}`);
        const said = lines.filter(line => line.values[bin]).map(line => {
          const v = Number(line.values[bin]);
          return `${line.name} ${line.unit === 's' ? seconds(v) : v.toLocaleString('en')}`;
        });
        note.textContent = [seconds(bin * interval), ...said]
          .map(part => part.replaceAll(' ', '\u00a0')).join(' · ');
      }
    };
    group.addEventListener('pointermove', show);
    group.addEventListener('pointerdown', show);
    group.addEventListener('pointerleave', clear);
  }
})();
