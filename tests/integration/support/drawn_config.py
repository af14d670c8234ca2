"""Configurations drawn at random from the whole grammar, for one daemon: what a test has to know of
names, files and addresses is here, everything else comes from the reference."""
from support import grammar
from support.daemon import quoted, section

DOMAINS = [f'd{n}.test' for n in range(8)]
LISTS = {'types': ['Reception', 'Delivery', 'TransientFailure', 'Bounce', 'Expiration'],
         'columns': ['type', 'rcpt', 'dlvSourceIp', 'vmta', 'vmtaPool', 'delay', 'dsnDiag'],
         'headers': ['X-A: b', 'Authorization: Bearer t']}
# Of transports, what providers and domains may set as well; rates that hinder nobody here.
RECEIVERS = {'destination_concurrency_limit', 'initial_destination_concurrency', 'site_concurrency_limit', 'lane_memory',
             'pipeline_depth', 'smtp_connect_timeout', 'smtp_rcpt_timeout', 'smtp_connection_cache_time_limit', 'block_pause'}
RATES = ['none', '1000000/s', '50000/s, burst 5000', '600,000/min', '900000000/h']
PATTERNS = ['*.d0.test', '*.*.d1.test', 'mx.d2.test', '*.d3.test', '*.*.*.test', 'd4.test']
# A configuration sets so many of its options; one in the middle leaves most defaults.
DENSITIES = (0.03, 0.15, 0.5)
# In the way of others' machines, of the commands that find the socket, or of an account.
NEVER = {('spool', 'path'), ('control', 'path'), ('event_log', 'path'), ('dns', 'servers'), ('', 'user'),
         # Sizes that have to fit each other and that only a restart changes.
         ('', 'map_size'), ('', 'spool_reserve'), ('', 'spool_journal'),
         # Who reads the events of a test reads one file.
         ('event_log', 'rotate_size')}
# Nothing may leave the machine: no name is resolved.
DNS = {'servers': ['127.0.0.1:9'], 'timeout': '1s', 'tries': 1}


def is_yes(value):
    return value in (True, 'yes', 'true', 'on')


def seconds(value):
    return int(str(value).rstrip('shd'))


class Drawn:
    """One configuration: sections = [(name, title, {option: value})]"""

    def __init__(self, drawing, chance, transports, at_start):
        self.drawing, self.chance, self.at_start = drawing, chance, at_start
        self.density = chance.choice(DENSITIES)
        self.sections = []
        self.transports = list(transports)
        self.probes = {}  # {domain: transport}: where a probe of it goes
        self.draw()

    # --- drawing -----------------------------------------------------------------------------

    def options(self, name, density=None):
        found = {}
        for option in self.drawing.options[name]:
            is_wanted = self.chance.random() < (self.density if density is None else density)
            if not is_wanted or (name, option.name) in NEVER or (option.needs_restart and self.at_start):
                continue
            value = option.draw(self.chance)
            if value is not None:
                found[option.name] = value
        return found

    def some(self, items, least=0):
        return self.chance.sample(items, self.chance.randint(least, len(items)))

    def hit(self, probability):
        return self.chance.random() < probability

    def draw(self):
        self.add('', None, self.draw_top())
        self.add('spool', None, {'path': self.drawing.spool})
        self.add('event_log', None, {'path': self.drawing.events_path, **self.options('event_log')})
        self.add('dns', None, {**DNS, **self.options('dns'), 'timeout': '1s', 'tries': 1})
        self.draw_doors()
        self.draw_feeds()
        self.draw_keys()
        self.draw_pools()
        for name in self.transports:
            self.draw_transport(name)
        self.draw_receivers()
        self.draw_routes()
        self.chance.shuffle(self.sections)
        self.sections.sort(key=lambda item: item[0] != '')

    def add(self, name, title, options):
        self.sections.append((name, title, options))

    def draw_top(self):
        top = self.options('')
        if self.at_start:
            top.update(workers=self.chance.randint(1, 3), map_size='4G', spool_reserve=0, spool_ballast=0,
                       scheduler_threads=self.chance.randint(0, 3), hostname='relay.test',
                       spool_journal=self.chance.choice(['0', '16M']))
        if self.hit(self.density):
            top['hostname'] = self.chance.choice(['relay.test', 'other.test', 'a.b.c.test'])
        if self.hit(0.1):
            top['defer_transports'] = self.some(self.transports)
        if self.hit(0.3):  # defaults of all transports
            top.update(self.options('transport', self.density / 3))
        return top

    def draw_doors(self):
        files = self.drawing.files
        if self.at_start or self.hit(0.9):
            listener = {'relay_from': ['127.0.0.0/8'], **self.options('listener', self.density / 2)}
            if self.hit(0.3):
                listener.update(tls_certificate=files['certificate'], tls_key=files['key'])
                if self.hit(0.5):
                    listener['users'] = files['users']
            if self.hit(0.5):
                listener.update(tenant_header='X-Tenant', tenant='acme', class_header='X-Class')
            if self.hit(0.1):
                listener['relay_from'] = ['192.0.2.0/24', '::1']
            self.add('listener', self.drawing.listener, listener)
        if self.hit(0.3) and not self.at_start:
            self.add('listener', '127.0.0.1:2', self.options('listener'))
        if self.at_start or self.hit(0.8):
            door = self.options('http')
            if self.hit(0.5):
                door['tokens_file'] = files['tokens']
            self.add('http', self.drawing.door, door)

    def draw_feeds(self):
        for name, title in (('csv', self.drawing.csv), ('webhook', 'http://127.0.0.1:9/x')):
            if self.hit(0.5):
                feed = self.options(name)
                if self.hit(0.5):
                    feed['types'] = self.some(LISTS['types'], 1)
                if name == 'csv' and self.hit(0.5):
                    feed['columns'] = self.some(LISTS['columns'], 1)
                if name == 'webhook' and self.hit(0.5):
                    feed.update(headers=self.some(LISTS['headers'], 1), secret_file=self.drawing.files['password'])
                self.add(name, title, feed)

    def draw_keys(self):
        chance = self.chance
        for n in range(chance.randint(1, 3) if self.hit(0.5) else 0):
            key = {'key': self.drawing.files['signing']}
            if self.hit(0.5):
                key['canonicalization'] = chance.choice(['relaxed/simple', 'simple/relaxed', 'simple/simple'])
            if self.hit(0.5):
                key['from_domains'] = chance.choice([['*'], ['sender.test', 'x.test'], ['elsewhere.test']])
            if self.hit(0.3):
                key['expire'] = chance.choice(['1h', '9d'])
            self.add('dkim', f'k{n}._domainkey.sender.test', key)

    def draw_pools(self):
        self.sources, self.pools = {}, {}
        for n in range(self.chance.randint(0, 4)):
            source = {}
            if self.hit(0.6):
                source['address'] = f'127.0.0.{self.chance.randint(2, 9)}'
            if self.hit(0.1):
                source['address6'] = '::1'
            if self.hit(0.4):
                source['helo_name'] = f's{n}.test'
            if self.hit(0.2):
                source['max_message_rate'] = self.chance.choice(RATES)
            if self.hit(0.05):
                source[self.chance.choice(['haproxy', 'socks5'])] = '127.0.0.1:9'
                source.setdefault('address', '127.0.0.2')
                source.pop('address6', None)
            self.sources[f's{n}'] = source
        for n in range(self.chance.randint(0, 2) if self.sources else 0):
            names = self.some(list(self.sources), 1)
            self.pools[f'p{n}'] = {'sources': names}
            if self.hit(0.4):
                self.pools[f'p{n}']['weights'] = [1, *(self.chance.choice([0, 1, 3, 10000]) for _ in names[1:])]
        for name, items in (('source', self.sources), ('pool', self.pools)):
            for title, options in items.items():
                self.add(name, title, options)

    def draw_transport(self, name):
        options = self.options('transport')
        files = self.drawing.files
        if self.pools and self.hit(0.4):
            options['source_pool'] = self.chance.choice(list(self.pools))
        if self.hit(0.2):
            options['smtp_helo_name'] = f'{name}.test'
        if self.hit(0.05):
            options.update(smtp_auth_user='u', smtp_auth_password_file=files['password'])
            options['smtp_auth_requires_tls'] = self.hit(0.1)  # no route may say `none` then
        if self.hit(0.2):
            options['smtp_tls_CAfile'] = files['certificate']
        if self.hit(0.1):
            options.update(smtp_tls_cert_file=files['certificate'], smtp_tls_key_file=files['key'])
        if self.hit(0.7):  # most are open
            options.pop('hold', None)
            options.pop('transport_rate_delay', None)
        self.add('transport', name, options)

    def draw_receivers(self):
        def drawn():
            found = {option.name: option.draw(self.chance) for option in self.drawing.options['transport']
                     if option.name in RECEIVERS and self.hit(self.density)}
            if self.hit(0.3):
                found['max_message_rate'] = self.chance.choice(RATES)
            return found
        self.tenants = {}
        patterns = self.some(PATTERNS)
        for n in range(self.chance.randint(0, 3)):
            self.add('provider', f'provider{n}', {**drawn(), **({'mx': patterns[n:n + 1]} if patterns[n:n + 1] else {}),
                                                  **({'domains': [f'x{n}.test']} if self.hit(0.3) else {})})
        for domain in self.some([*DOMAINS, 'elsewhere.test']) if self.hit(0.5) else ():
            self.add('domain', domain, drawn())
        for name in ('acme', '*'):
            if self.hit(0.3):
                tenant = {'max_message_rate': self.chance.choice(RATES), 'max_message_quota': '900000000/d'}
                if self.hit(0.3):
                    tenant['maximal_queue_lifetime'] = self.chance.choice(['0', '30d'])
                self.tenants[name] = tenant

    def draw_routes(self):
        drawing, chance = self.drawing, self.chance
        self.is_any_routed = False
        level = next(o for o in drawing.options['route'] if o.name == 'smtp_tls_security_level')
        levels = {}
        for number, domain in enumerate([*DOMAINS, 'sender.test', '*']):
            if self.hit(0.15):
                continue
            hop = chance.choice([drawing.good(number + 1), drawing.good(number + 1), drawing.bad(number + 1),
                                 f'[127.0.0.1]:{drawing.dead_port}', '[absent.test]', None])
            options = {'transport': chance.choice(self.transports)}
            if hop:
                options['nexthop'] = hop
            # Those to one nexthop of one transport must agree.
            levels.setdefault((options['transport'], hop or domain),
                              level.draw(chance) if self.hit(0.2) else None)
            if levels[options['transport'], hop or domain]:
                options['smtp_tls_security_level'] = levels[options['transport'], hop or domain]
            self.add('route', domain, options)
            self.is_any_routed = domain == '*'
        for name, tenant in self.tenants.items():
            if self.is_any_routed and self.hit(0.5):
                tenant['transport'] = chance.choice(self.transports)
            self.add('tenant', name, tenant)
        for name in self.transports[:6]:
            domain = f'{name}.probe.test'
            self.probes[domain] = name
            self.add('route', domain, {'transport': name, 'nexthop': drawing.fresh(),
                                       'smtp_tls_security_level': 'none'})

    # --- what it means -----------------------------------------------------------------------

    def of(self, name, title=None):
        return next((options for n, t, options in self.sections if (n, t) == (name, title)), {})

    def value(self, transport, option):
        default = next(o.default for o in self.drawing.options['transport'] if o.name == option)
        top = self.of('')
        return self.of('transport', transport).get(option, top.get(option, default))

    def is_open(self, transport):
        """Whether mail of this transport to a server that takes everything has to move."""
        top = self.of('')
        pool = self.of('pool', self.value(transport, 'source_pool')) if self.value(transport, 'source_pool') else {}
        sources = [self.of('source', name) for name in pool.get('sources', ())]
        is_v4 = self.value(transport, 'inet_protocols') != 'ipv6'  # the servers have that alone
        return (is_v4 and not is_yes(self.value(transport, 'hold')) and
                transport not in top.get('defer_transports', ()) and
                seconds(self.value(transport, 'transport_rate_delay')) <= 1 and
                seconds(self.value(transport, 'destination_rate_delay')) <= 2 and
                self.value(transport, 'smtp_auth_user') is None and
                not any(set(source) & {'haproxy', 'socks5', 'address6'} for source in sources) and
                (not pool or any(pool.get('weights', [1]))))

    def active_limit(self):
        """Messages that may be active; those of transports that hold their mail are among them."""
        return int(self.of('').get('message_active_limit', 20000))

    def text(self):
        text = ''
        for name, title, options in self.sections:
            if name == '':
                text += ''.join(f'{key} = {quoted(value)}\n' for key, value in options.items())
            else:
                text += section(f'{name} "{title}"' if title else name, options)
        return text

    def __str__(self):
        return self.text()


class Drawing:
    """What all configurations of one daemon share."""

    def __init__(self, daemon, files, good, bad, dead_port):
        self.options = {}
        for option in grammar.read():
            self.options.setdefault(option.section, []).append(option)
        self.spool, self.events_path = daemon.spool, daemon.events_path
        self.listener = f'{daemon.address}:{daemon.port}'
        self.door = f'{daemon.address}:{daemon.http_port}'
        self.csv = f'{daemon.folder}/account.csv'
        self.files, self.dead_port = files, dead_port
        self.good_port, self.bad_port = good, bad
        self.numbers = 0

    def good(self, number):
        return f'[127.21.1.{number}]:{self.good_port}'

    def bad(self, number):
        return f'[127.21.2.{number}]:{self.bad_port}'

    def fresh(self):
        """A server that takes everything, and that nothing was sent to for long."""
        self.numbers += 1
        return self.good(20 + self.numbers % 200)

    def calm(self, chance, transports):
        """Everything may go, and goes to servers that take it."""
        drawn = Drawn.__new__(Drawn)
        drawn.drawing, drawn.chance, drawn.transports, drawn.probes = self, chance, list(transports), {}
        routes = [('route', domain, {'transport': chance.choice(transports), 'nexthop': self.good(n + 1)})
                  for n, domain in enumerate([*DOMAINS, 'sender.test', '*'])]
        drawn.sections = [
            ('', None, {'hostname': 'relay.test', 'minimal_backoff_time': '1s', 'maximal_backoff_time': '2s',
                        'queue_run_delay': '1s', 'smtp_tls_security_level': 'may'}),
            ('spool', None, {'path': self.spool}), ('event_log', None, {'path': self.events_path}),
            ('dns', None, DNS),
            ('listener', self.listener, {'relay_from': ['127.0.0.0/8']}),
            *(('transport', name, {}) for name in transports), *routes]
        return drawn
