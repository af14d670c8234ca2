"""Live traffic, for those who look on."""
import threading

from support import injection


def refuse(text):
    """A receiver's answers that has this to say to each recipient."""
    return lambda verb, argument, session: text if verb == 'RCPT' else None


class Traffic(threading.Thread):
    """Mail of two tenants to every domain, all the time."""

    def __init__(self, daemon, domains):
        super().__init__(daemon=True)
        self.relay, self.domains, self.is_over = daemon, domains, threading.Event()
        self.start()

    def run(self):
        count = 0
        while not self.is_over.wait(0.05):
            messages = [{'recipients': [f'user{count}@{domain}'], 'text': 'hello\n'}
                        for domain in self.domains]
            tenant = 'acme' if count % 3 else 'globex'
            defaults = {'from': 'news@acme.test', 'tenant': tenant, 'campaign': 'spring',
                        'headers': {'Subject': 'Spring'}}
            injection.post(self.relay, {'defaults': defaults, 'messages': messages}).expect(202)
            count += 1

    def close(self):
        self.is_over.set()
        self.join()
