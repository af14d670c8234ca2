"""One run in the report: CPU time by thread, plots over time, the table of destinations."""
import math
import statistics

from report_plot import Panel, bars, heat_map, over_time
from report_text import (axis_number, count, escape, is_number, known, number, numbers, quantile,
                         rows, seconds, shortened, table_of)

TABLE_ROWS = 50
# With the sum of all of them twelve plots: full rows of two, three or four.
BUSIEST, SLOWEST, DEFERRED, CARDS = 5, 3, 3, 11
HEAT_SINGLE, HEAT_GROUPS = 24, 16

# key, heading, is it a duration
COLUMNS = [('messages', 'messages', False), ('recipients', 'recipients', False),
           ('rate', 'messages/s', False), ('p50', 'p50', True), ('p90', 'p90', True),
           ('p99', 'p99', True), ('max', 'largest', True), ('deferred', 'deferred', False),
           ('rejected', 'rejected', False), ('refused', 'refused', False),
           ('connections', 'connections', False), ('max_open', 'most open', False)]
LATENCIES = {key for key, _, is_duration in COLUMNS if is_duration}
QUANTILES = [('least', 0), ('p10', .1), ('p25', .25), ('median', .5), ('p75', .75), ('p90', .9),
             ('p99', .99), ('largest', 1)]


def value_of(destination, key):
    source = table_of(destination, 'latency') if key in LATENCIES else destination
    value = source.get(key)
    return value if is_number(value) else None


def say(value, is_duration):
    return seconds(value) if is_duration else number(value)


def threads(run):
    amounts = [(name, value) for name, value in table_of(run, 'threads').items()
               if is_number(value) and value >= 0]
    if not amounts:
        return ''
    amounts.sort(key=lambda pair: -pair[1])
    whole = sum(value for _, value in amounts)
    return (f'<h4>CPU time by thread</h4><p class="note">{number(whole, 2)} s in all.</p>'
            f'<div class="cards narrow"><figure class="card">'
            f'{bars("CPU seconds by thread", amounts, "s")}</figure></div>')


def destination_table(run):
    found = rows(run, 'destinations')
    columns = [column for column in COLUMNS
               if any(value_of(destination, column[0]) is not None for destination in found)]
    if not found:
        return ''
    found.sort(key=lambda destination: -(value_of(destination, 'messages') or 0))
    shown = found[:TABLE_ROWS]
    out = ['<h4>Destinations</h4>']
    if len(found) > len(shown):
        out.append(f'<p class="note">{count(len(found), "destination")}; how each column is spread '
                   'over them:</p>' + quantile_table(found, columns))
        out.append(f'<p class="note">The {len(shown)} with most messages:</p>')
    head = ''.join(f'<th scope="col">{escape(title)}</th>' for _, title, _ in columns)
    out.append('<div class="scroll"><table class="sortable filtered"><thead><tr>'
               f'<th scope="col">destination</th>{head}</tr></thead><tbody>')
    for destination in shown:
        name = str(destination.get('name', ''))
        out.append(f'<tr data-name="{escape(name)}"><th scope="row" title="{escape(name)}">'
                   f'{escape(shortened(name, 36))}</th>')
        for key, _, is_duration in columns:
            value = value_of(destination, key)
            sort = '' if value is None else f' data-v="{value:.9g}"'
            out.append(f'<td{sort}>{escape(say(value, is_duration))}</td>')
        out.append('</tr>')
    out.append('</tbody></table></div>')
    return ''.join(out)


def quantile_table(found, columns):
    out = ['<div class="scroll"><table><thead><tr><th scope="col"></th>'
           '<th scope="col">sum</th>',
           *(f'<th scope="col">{title}</th>' for title, _ in QUANTILES), '</tr></thead><tbody>']
    for key, title, is_duration in columns:
        values = sorted(known(value_of(destination, key) for destination in found))
        whole = '' if is_duration else number(sum(values))
        heading = f'latency, {title}' if is_duration else title
        out.append(f'<tr><th scope="row">{escape(heading)}</th><td>{whole}</td>')
        out += [f'<td>{escape(say(quantile(values, share), is_duration))}</td>'
                for _, share in QUANTILES]
        out.append('</tr>')
    return ''.join(out) + '</tbody></table></div>'


# ---- over time

class Timeline:
    """What a run says over time, in at most `budget` bins of equal length."""

    def __init__(self, run, budget):
        source = table_of(run, 'timeline')
        self.destinations = {name: data for name, data in table_of(source, 'destinations').items()
                             if isinstance(data, dict)}
        interval = source.get('interval')
        length = max((len(values) for data in self.destinations.values()
                      for values in data.values() if isinstance(values, list)), default=0)
        self.is_empty = not length or not is_number(interval) or interval < 1e-6
        if self.is_empty:
            return
        self.factor = math.ceil(length / budget)
        self.bins = math.ceil(length / self.factor)
        self.interval = interval * self.factor
        table = {str(row.get('name')): row for row in rows(run, 'destinations')}
        self.messages = {name: self.total(name, table.get(name), 'messages')
                         for name in self.destinations}
        self.deferred = {name: self.total(name, table.get(name), 'deferred')
                         for name in self.destinations}
        self.slowness = {name: self.p99(name, table.get(name)) for name in self.destinations}

    def raw(self, name, key):
        return numbers(self.destinations[name].get(key))

    def total(self, name, row, key):
        value = value_of(row, key) if row else None
        return sum(known(self.raw(name, key))) if value is None else value

    def p99(self, name, row):
        value = value_of(row, 'p99') if row else None
        return max(known(self.raw(name, 'latency_p99')), default=0) if value is None else value

    def merged(self, values, merge):
        """The bins of a list; merge gets the known values of one that has any."""
        out = []
        for begin in range(0, self.bins * self.factor, self.factor):
            present = known(values[begin:begin + self.factor])
            out.append(merge(present) if present else None)
        return out if known(out) else []

    def per_second(self, values):
        """Counts to a rate; the last bin may be shorter than the others."""
        unit = self.interval / self.factor
        out = self.merged(values, sum)
        for index, value in enumerate(out):
            if value is not None:
                width = len(values[index * self.factor:(index + 1) * self.factor])
                out[index] = value / (unit * width)
        return out

    def bins_of(self, name):
        messages = self.raw(name, 'messages')
        # A mean of medians is no median, but with the weights of the intervals it is near.
        middles = self.raw(name, 'latency_p50')
        weights = messages + [None] * (len(middles) - len(messages))
        weighed = [None if value is None else (value, weight or 0)
                   for value, weight in zip(middles, weights)]
        deferred, refused = self.raw(name, 'deferred'), self.raw(name, 'refused')
        return {'rate': self.per_second(messages),
                'deferred': self.per_second(deferred) if any(known(deferred)) else [],
                'refused': self.per_second(refused) if any(known(refused)) else [],
                'limit': self.merged(self.raw(name, 'limit'), statistics.fmean),
                'open': self.merged(self.raw(name, 'open'), max),
                'window': self.merged(self.raw(name, 'window'), lambda present: present[-1]),
                'p50': self.merged(weighed, weighted_mean),
                'p99': self.merged(self.raw(name, 'latency_p99'), max)}

    def sums(self):
        """Of all destinations; latencies have none."""
        def added(key):
            columns = [self.raw(name, key) for name in self.destinations]
            longest = max(map(len, columns))
            return across(columns, longest, sum)
        deferred = added('deferred')
        return {'rate': self.per_second(added('messages')),
                'deferred': self.per_second(deferred) if any(known(deferred)) else [],
                'open': self.merged(added('open'), max)}

    def chosen(self):
        """[(name, why)] of the destinations that get a plot of their own, the busiest first."""
        names = sorted(self.destinations, key=lambda name: -self.messages[name])
        if len(names) <= CARDS:
            return [(name, '') for name in names]
        why = {name: 'busiest' for name in names[:BUSIEST]}
        for amount, measure, reason in ((SLOWEST, self.slowness, 'slowest'),
                                        (DEFERRED, self.deferred, 'most deferred')):
            rest = sorted((name for name in names if name not in why and measure[name] > 0),
                          key=lambda name: -measure[name])
            why.update((name, reason) for name in rest[:amount])
        for name in names:
            if len(why) < CARDS:
                why.setdefault(name, 'busy')
        return [(name, why[name]) for name in names if name in why]

    def heat_rows(self, names):
        """[(label, hint, [names])]: single destinations first, then groups of equal size."""
        if len(names) <= HEAT_SINGLE + HEAT_GROUPS:
            groups = [[name] for name in names]
        else:
            groups = [[name] for name in names[:HEAT_SINGLE]]
            rest = names[HEAT_SINGLE:]
            cuts = [round(index * len(rest) / HEAT_GROUPS) for index in range(HEAT_GROUPS + 1)]
            groups += [rest[first:last] for first, last in zip(cuts, cuts[1:])]
        place, out = 0, []
        for group in groups:
            if len(group) == 1:
                out.append((group[0], group[0], group))
            else:
                out.append((f'{place + 1:,}–{place + len(group):,}',
                            f'{count(len(group), "destination")}, {group[0]} to {group[-1]}',
                            group))
            place += len(group)
        return out


def weighted_mean(pairs):
    weight = sum(weight for _, weight in pairs)
    if not weight:
        return sum(value for value, _ in pairs) / len(pairs)
    return sum(value * part for value, part in pairs) / weight


def make_panels(data):
    """The panels that have something to show, with the axes that suit all of data."""
    panels = [Panel('messages/s', '', [('rate', 'delivered', 's1', 'area'),
                                       ('deferred', 'deferred', 's2', 'step'),
                                       ('refused', 'refused', 's4', 'step'),
                                       ('limit', 'hidden limit', 's3', 'step')]),
              Panel('connections', '', [('open', 'open', 's6', 'area'),
                                        ('window', 'window', 's1', 'step')]),
              Panel('latency', 's', [('p50', 'p50', 's1', 'line'), ('p99', 'p99', 's4', 'line')])]
    used = []
    for panel in panels:
        peaks = [max((value for key, *_ in panel.series for value in known(bins.get(key, []))),
                     default=0) for bins in data]
        if not any(peaks):
            continue
        kind = 'linear'
        if panel.unit == 's':
            kind = 'log'
        elif max(peaks) > 12 * quantile(sorted(peaks), .25):
            kind = 'sqrt'  # a few large ones would press the others to the floor
        panel.fit(kind, [value for key, *_ in panel.series for bins in data
                         for value in known(bins.get(key, []))])
        used.append(panel)
    return used


def card(title, note, name, panels, bins, timeline):
    marked = f' data-name="{escape(name)}"' if name is not None else ''
    plot = over_time(f'{title} over time', panels, bins, timeline.bins, timeline.interval)
    return (f'<figure class="card time"{marked}><figcaption><b title="{escape(title)}">'
            f'{escape(shortened(title, 36))}</b><span>{escape(note)}</span></figcaption>{plot}'
            '</figure>')


def over_time_section(run, budget):
    timeline = Timeline(run, budget)
    if timeline.is_empty:
        return ''
    chosen = timeline.chosen()
    data = {name: timeline.bins_of(name) for name, _ in chosen}
    panels, cards = make_panels(data.values()), []
    if len(timeline.destinations) > 1:
        sums = timeline.sums()
        own = make_panels([sums])
        if own:
            cards.append(card('All destinations together', 'axes of its own', None, own, sums,
                              timeline))
    for name, why in chosen:
        note = [why] if why else []
        note.append(count(round(timeline.messages[name]), 'message'))
        if timeline.deferred[name]:
            note.append(f'{timeline.deferred[name]:,.0f} deferred')
        if timeline.slowness[name]:
            note.append(f'p99 {seconds(timeline.slowness[name])}')
        note = ' · '.join(part.replace(' ', '\xa0') for part in note)
        cards.append(card(name, note, name, panels, data[name], timeline))
    if not panels:
        return ''
    words = [f'One step is {seconds(timeline.interval)}; the plots of this run\'s '
             'destinations have common axes.']
    if timeline.factor > 1:
        words.append(f'It joins {timeline.factor} intervals of the measurement: counts are added, '
                     'open connections and p99 are the largest, p50 is the mean weighted by '
                     'messages, a hidden limit is the mean, the window is the last.')
    if any(panel.scale.kind == 'sqrt' for panel in panels):
        words.append('Square-root axes, because a few destinations are far above the others.')
    if len(timeline.destinations) > len(chosen):
        words.append(f'{count(len(timeline.destinations), "destination")}: here the busiest, the '
                     'slowest (by p99) and those with most deferrals, the others in the heat maps '
                     'below.')
    return ('<h4>Over time</h4>'
            f'<p class="note">{escape(" ".join(words))}</p><div class="cards linked filtered">'
            f'{"".join(cards)}</div>{heat_maps(timeline, {name for name, _ in chosen})}')


def heat_maps(timeline, shown):
    names = sorted((name for name in timeline.destinations if name not in shown),
                   key=lambda name: -timeline.messages[name])
    if not names:
        return ''
    rate_rows, slow_rows, groups = [], [], timeline.heat_rows(names)
    for label, hint, group in groups:
        columns = [timeline.per_second(timeline.raw(name, 'messages')) for name in group]
        rate_rows.append((label, hint, across(columns, timeline.bins, statistics.fmean)))
        columns = [timeline.merged(timeline.raw(name, 'latency_p99'), max) for name in group]
        slow_rows.append((label, hint, across(columns, timeline.bins, statistics.median)))
    grouped = ' A row of several shows the mean of their rates and the median of their p99.' \
        if len(groups) < len(names) else ''
    out = []
    for title, lines, style, words in (
            ('Messages/s', rate_rows, 'h', axis_number), ('Latency, p99', slow_rows, 'g', seconds)):
        plot, legend = heat_map(f'{title} of the other destinations over time', lines,
                                timeline.interval, style, words)
        if plot:
            out.append(f'<figure class="card"><figcaption><b>{title}</b></figcaption>'
                       f'<div class="scroll heat">{plot}</div>{legend}</figure>')
    if not out:
        return ''
    return (f'<h4>The other {count(len(names), "destination")}</h4><p class="note">By number of '
            f'messages.{grouped}</p><div class="cards wide">{"".join(out)}</div>')


def across(columns, bins, merge):
    """One list of several: merge gets the known values of each place."""
    out = []
    for index in range(bins):
        present = known(column[index] for column in columns if index < len(column))
        out.append(merge(present) if present else None)
    return out


def details(run, budget):
    """HTML of everything that is known of one run beside its figures; '' when that is nothing."""
    return threads(run) + over_time_section(run, budget) + destination_table(run)
