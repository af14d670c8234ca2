"""Who got what: what sources and receivers noted, against the event log of the daemon."""
import bisect
import datetime
import glob
import json
import re

from support.tools import ledger_lines

ENDS = ('Bounce', 'Expiration', 'AdminBounce', 'AdminDrop')
SOCKET_SECONDS = 0.5  # what a killed daemon had written may be taken so much later
CLOCK_SECONDS = 1.0   # between the note of a copy and that of the attempt in the event log
REPEATS = re.compile(r'at most (\d+) deliver')


class Fate:
    """What the event log says of one recipient."""
    __slots__ = ('delivered', 'ends', 'ambiguous')

    def __init__(self):
        self.delivered, self.ends, self.ambiguous = 0, [], []


class Account:
    """accepted: {recipient: id of its message}; copies: {recipient: times}, of the ledgers."""

    def __init__(self, sources, injected, ledgers):
        self.accepted, self.offered, self.copies = {}, {}, {}
        self.messages, self.wrong = 0, []
        for source in sources:
            self.read_source(source)
        for id, recipients in injected.offered.items():
            self.offered.update((recipient, (id, None)) for recipient in recipients)
        for id in injected.accepted:
            self.messages += 1
            self.accepted.update((recipient, id) for recipient in injected.offered[id])
        for line in (line for ledger in ledgers for line in ledger_lines(ledger)):
            self.take_copy(line)

    def read_source(self, source):
        """Whose mail names a tenant, its fields may be taken out on the way: no hash of it."""
        by_id = {}
        for line in source.lines():
            if line['event'] == 'offered':
                by_id[line['id']] = line['recipients']
                hash = None if source.has_tenants else line['sha256']
                self.offered.update((r, (line['id'], hash)) for r in line['recipients'])
            elif line['event'] in ('acked', 'accepted'):
                self.messages += 1
                refused = set(line['refused'])
                self.accepted.update((r, line['id']) for r in by_id[line['id']] if r not in refused)

    def take_copy(self, line):
        for recipient in line['recipients']:
            id, hash = self.offered.get(recipient, (None, None))
            if id != line['id'] or hash not in (None, line['sha256']):
                self.wrong.append(line)
            self.copies.setdefault(recipient, []).append(line['time'])

    def read_events(self, path):
        """All segments of the log, whoever renamed them. Returns {type: number}."""
        self.fates, counts = {}, {}
        for name in glob.glob(glob.escape(path) + '*'):
            with open(name, 'rb') as file:
                for text in file:
                    try:
                        event = json.loads(text)
                    except ValueError:
                        event = {'type': 'torn line'}
                    counts[event['type']] = counts.get(event['type'], 0) + 1
                    if 'recipient' in event:
                        self.take_event(event)
        return counts

    def take_event(self, event):
        fate = self.fates.setdefault(event['recipient'], Fate())
        if event['type'] == 'Delivery':
            fate.delivered += 1
        elif event['type'] in ENDS:
            fate.ends.append(event['type'])
        if event.get('is_ambiguous'):
            fate.ambiguous.append(datetime.datetime.fromisoformat(event['event_time']).timestamp())

    # --- what must not be ------------------------------------------------------------------------

    def lost(self):
        """Accepted, and nobody got it or says why not."""
        return [(id, recipient) for recipient, id in self.accepted.items()
                if recipient not in self.copies and not
                (recipient in self.fates and self.fates[recipient].ends)]

    def claimed(self):
        """Said to be delivered, but no receiver took it."""
        return [recipient for recipient, fate in self.fates.items()
                if fate.delivered and recipient in self.offered and recipient not in self.copies]

    def untold(self):
        """Received, but without an end in the event log."""
        return [recipient for recipient in self.copies if recipient not in self.fates or not
                (self.fates[recipient].delivered or self.fates[recipient].ends)]

    def repeats(self):
        """(how many copies too many were marked, [(before, after, recipient)] of the others)"""
        marked, bare = 0, []
        for recipient, times in self.copies.items():
            if len(times) < 2:
                continue
            fate = self.fates.get(recipient)
            marks = sorted(fate.ambiguous) if fate else []
            times.sort()
            for before, after in zip(times, times[1:]):
                mark = next((m for m in marks
                             if before - CLOCK_SECONDS <= m <= after + CLOCK_SECONDS), None)
                if mark is None:
                    bare.append((before, after, recipient))
                else:
                    marks.remove(mark)
                    marked += 1
        return marked, bare


def share_out(kills, bare):
    """([how many copies each kill repeated], those that no kill explains). The first kill after a
    copy is the one that forgot it."""
    counts, unexplained = [0] * len(kills), []
    for before, after, recipient in bare:
        number = bisect.bisect_left(kills, before)
        if number < len(kills) and kills[number] <= after:
            counts[number] += 1
        elif number > 0 and before - kills[number - 1] < SOCKET_SECONDS:
            counts[number - 1] += 1
        else:
            unexplained.append((before, after, recipient))
    return counts, unexplained
