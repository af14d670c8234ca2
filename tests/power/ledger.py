"""What was offered, acknowledged and received, session by session, and whether that is right.

A session is what lies between a start of the machine and its cut; it has ledger files of its own.
Session N ends with cut N.
"""
import collections
import json


def read_ledger(path):
    """The objects of all complete lines; a cut in the middle of a line leaves no line."""
    try:
        with open(path, 'rb') as file:
            data = file.read()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in data[:data.rfind(b'\n') + 1].splitlines()]


class Ledger:
    """Sessions must be added in their order; of each: sources, then sinks, then notices."""

    def __init__(self):
        self.offers = {}                      # message id: (sender, recipients, hash)
        self.fates = {}                       # message id: event, where there was an answer
        self.receptions = {}                  # (message id, recipient): sessions
        self.notices = {}                     # (message id, recipient): (notice, sessions)
        self.acknowledged = set()             # (message id, recipient)
        self.duplicates = collections.Counter()  # cut: receptions that repeat one before it
        self.wrong = []

    def add_source(self, records):
        for record in records:
            if record['event'] == 'offered':
                self.offers[record['id']] = (record['sender'], frozenset(record['recipients']),
                                             record['sha256'])
                continue
            self.fates[record['id']] = record['event']
            if record['event'] == 'acked':
                accepted = self.offers[record['id']][1] - set(record['refused'])
                self.acknowledged.update((record['id'], recipient) for recipient in accepted)

    def add_sink(self, session, records):
        for record in records:
            what = f'session {session}: message {record["id"] or "without id"}'
            offer = self.offers.get(record['id'])
            if offer is None:
                self.wrong.append(f'{what} was received and never offered')
                continue
            if (record['sender'], record['sha256']) != (offer[0], offer[2]):
                self.wrong.append(f'{what} was received with other content or sender')
                continue
            for recipient in record['recipients']:
                self._receive(session, record['id'], recipient, what)

    def _receive(self, session, message, recipient, what):
        if recipient not in self.offers[message][1]:
            self.wrong.append(f'{what} was received for {recipient}, who was not offered')
            return
        if self.fates.get(message) in ('refused', 'deferred', 'unsent'):
            self.wrong.append(f'{what} was received though its client was told no')
        before = self.receptions.setdefault((message, recipient), [])
        if (message, recipient) in self.notices:
            self.wrong.append(f'{what} came to {recipient} after it was returned to its sender')
        if before and before[-1] == session:
            self.wrong.append(f'{what} came to {recipient} twice without a cut in between')
        elif before:
            # It was received before that session's cut, and its result was not yet durable.
            self.duplicates[before[-1]] += 1
        before.append(session)

    def add_notices(self, session, records):
        """records: 'notice' (what makes it unique), 'id' of the message that it is about, and
        what it was 'to' and 'about': recipients; in the order in which they came"""
        for record in records:
            what = f'session {session}: notice {record["notice"]} about {record["id"]}'
            offer = self.offers.get(record['id'])
            if offer is None or record['to'] != [offer[0]] or not offer[1] >= set(record['about']):
                self.wrong.append(f'{what} does not fit what was offered')
                continue
            for recipient in record['about']:
                self._notice(session, record, recipient, f'{what} to {recipient}')

    def _notice(self, session, record, recipient, what):
        key = (record['id'], recipient)
        notice, before = self.notices.setdefault(key, (record['notice'], []))
        received = self.receptions.get(key, [])
        if notice != record['notice']:
            self.wrong.append(f'{what} is the second one, after {notice}')
        elif before and before[-1] == session:
            self.wrong.append(f'{what} came twice without a cut in between')
        elif before:
            self.duplicates[before[-1]] += 1
        elif received and received[-1] >= session:
            self.wrong.append(f'{what} came, and so did the message, without a cut in between')
        before.append(session)

    def lost(self):
        return sorted(self.acknowledged - self.receptions.keys() - self.notices.keys())

    def check_halves(self):
        """Whether or not its client was told: a message is there for all recipients or for none."""
        for message in {message for message, _ in [*self.receptions, *self.notices]}:
            missing = [recipient for recipient in self.offers[message][1]
                       if (message, recipient) not in self.receptions and
                       (message, recipient) not in self.notices]
            if missing and self.fates.get(message) != 'acked':
                self.wrong.append(f'message {message} was received, but not for {missing[0]}')

    def check_bounds(self, bounds):
        """bounds: {cut: what the daemon promised at the start after it}"""
        for cut, count in sorted(self.duplicates.items()):
            if count > bounds[cut]:
                self.wrong.append(f'cut {cut}: {count} duplicates, {bounds[cut]} promised')
