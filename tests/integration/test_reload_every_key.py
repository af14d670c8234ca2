"""Everything of the configuration but threads, the spool and listening sockets takes effect by reload:
each key of the reference gets another value, and the daemon either has it in force afterwards or names
it as one that needs a restart."""
import os
import re

from support import grammar
from support.certificate import make_certificate
from support.client import message, submit
from support.reloading import config_of, reload
from support.signing_key import make_signing_key

# Where a value has to fit what else there is. Keys of a section "" are those of the top level.
BEFORE = {('listener', 'tenant'): 'before', ('source', 'helo_name'): 'before.test',
          # Both have to be there from the beginning: without them a door is of another kind.
          ('http', 'tls_certificate'): 'FILE', ('http', 'tls_key'): 'KEY', ('http', 'tokens_file'): 'TOKENS',
          ('transport', 'smtp_tls_cert_file'): 'FILE', ('transport', 'smtp_tls_key_file'): 'KEY',
          ('listener', 'tls_certificate'): 'FILE', ('listener', 'tls_key'): 'KEY',
          ('transport', 'smtp_auth_user'): 'u', ('transport', 'smtp_auth_password_file'): 'PASSWORD',
          ('source', 'socks5_user'): 'u', ('source', 'socks5_password_file'): 'PASSWORD',
          ('source', 'address'): '127.0.0.1', ('source', 'address6'): '::1',
          ('source', 'warmup'): ['5/d', 'none'], ('source', 'since'): '2026-01-01',
          ('pool', 'sources'): ['plain'], ('pool', 'weights'): [1], ('webhook', 'secret_file'): 'PASSWORD',
          ('dkim', 'key'): 'SIGNING', ('provider', 'mx'): ['*.a.test'], ('provider', 'domains'): ['a.test']}
AFTER = {'hostname': 'after.test', 'relay_from': ['127.0.0.1', '10.0.0.0/8'], 'users': 'USERS',
         'tenant': 'after', 'tenant_header': 'X-Tenant', 'campaign_header': 'X-Campaign', 'class_header': 'X-Class', 'inject': False,
         'classes': ['urgent', 'normal'], 'key': 'SIGNING2', 'dkim': ['s._domainkey.k.test'], 'feedback_id': '{tenant}:x',
         'oversign': ['Subject'], 'also': ['k.test'], 'from_domains': ['k.test'],
         'servers': ['127.0.0.1:10'], 'types': ['Delivery'], 'headers': ['X-A: b'],
         'from': 'after@after.test', 'contact': 'after@after.test', 'organization': 'after', 'ca_file': 'FILE2',
         'columns': ['rcpt', 'type'], 'pool': 'other', 'address': '127.0.0.2', 'address6': '2001:db8::2', 'map_size': '5G',
         'helo_name': 'after.test', 'haproxy': '127.0.0.1:9', 'socks5': '127.0.0.1:10',
         'socks5_user': 'v', 'warmup': ['6/d', 'none'], 'since': '2026-01-02', 'sources': ['plain', 'given'],
         'weights': [2, 3], 'source_pool': 'out', 'smtp_helo_name': 'after.test', 'smtp_auth_user': 'v',
         'mx': ['*.b.test'], 'domains': ['b.test'], 'files': ['RULES'], 'nexthop': '[127.0.0.1]:9',
         'max_message_rate': '7/s', 'max_recipient_rate': '7/s', 'max_connection_rate': '7/s',
         'site_message_rate': '7/s', 'max_message_quota': '7/d', 'smtp_tls_CAfile': 'FILE2',
         'tls_ca_file': 'FILE2', 'tls_certificate': 'FILE2', 'tls_key': 'KEY2', 'smtp_tls_cert_file': 'FILE2',
         'smtp_tls_key_file': 'KEY2', 'tokens_file': 'TOKENS2', 'secret_file': 'PASSWORD2',
         'smtp_auth_password_file': 'PASSWORD2', 'socks5_password_file': 'PASSWORD2', 'transport': 'plain',
         ('dkim', 'headers'): ['List-Id'], ('dkim', 'expire'): '9d', 'hard_bounce': '2 in 7d', 'complaint': 'no', 'unsubscribe': '3 in 1d', 'mailbox_full': '5 in 30d',
         'verp': 'bounces@b.test', 'list_unsubscribe': 'leave@b.test', 'list_unsubscribe_url': 'https://b.test/{token}', 'receives': ['b.test'],
         'user': 'nobody', 'defer_transports': ['proxied'], 'smtp_tls_security_level': 'encrypt'}
# Not at the same time as what else is drawn: they exclude each other, or what they say is tried.
APART = {('source', 'haproxy'), ('source', 'socks5'), ('source', 'socks5_user'), ('source', 'socks5_password_file'),
         ('source', 'max_message_quota')}
# Threads, the spool, and sockets; nothing else.
RESTART = {('', 'workers'), ('', 'scheduler_threads'), ('', 'dkim_threads'), ('', 'thread_policy'), ('', 'user'), ('', 'map_size'), ('', 'spool_reserve'),
           ('', 'spool_ballast'), ('', 'spool_journal'), ('spool', 'path'), ('event_log', 'path'), ('control', 'path')}
RESTART |= {('cluster', name) for name in ('node', 'servers', 'monitors', 'credentials', 'tls_ca_file', 'tls_certificate',
                                           'tls_key', 'replicas', 'log', 'max_bytes', 'takeover', 'module')}  # test_cluster.py changes them
TITLES = {'listener': None, 'http': None, 'webhook': 'http://127.0.0.1:9/hook', 'csv': 'CSV', 'tenant': 'acme', 'dkim': 's._domainkey.k.test', 'suppression': 'acme',
          'source': 'given', 'pool': 'out', 'transport': 'smtp', 'provider': 'p', 'domain': 'd.test',
          'route': 'r.test'}


def other(option):
    """A value that is not the default, of a kind that needs no knowledge."""
    default = option.default
    if option.kind == 'number':
        wanted = int(default) + 1 if default else option.low + 1
        return wanted if wanted <= option.high else wanted - 2
    if option.kind == 'time':
        number, unit = re.match(r'(\d+)([a-z]*)', default or '0s').groups()
        number = int(number) * {'': 1, 's': 1, 'm': 60, 'h': 3600, 'd': 86400}[unit]
        return f'{number + 1 if number + 1 <= option.high else number - 1}s'
    if option.kind == 'size':
        return '70M' if default != '70M' else '71M'
    if option.kind == 'yes or no':
        return default != 'yes'
    if option.kind == 'one of':
        return next(one for one in option.choices if one != default)
    assert option.kind == 'feedback', (option.section, option.name, option.kind)
    return '1/2'


def shown(row):
    """Of what is a secret the line alone is."""
    row = row or {}
    return row.get('at') if row.get('value') == '(not shown)' else row.get('value')


class Files:
    def __init__(self, folder):
        self.folder = folder
        self.names = {}
        for number in ('', '2'):
            sub = os.path.join(folder, f'certificate{number}')
            os.mkdir(sub)
            self.names[f'FILE{number}'], self.names[f'KEY{number}'] = make_certificate(sub, 'relay.test')
            self.names[f'SIGNING{number}'] = os.path.join(folder, f'SIGNING{number}')
            make_signing_key(self.names[f'SIGNING{number}'])
            self.write(f'TOKENS{number}', f'name:0123456789abcdef{number}\n')
            self.write(f'PASSWORD{number}', f'secret{number}\n')
        self.write('USERS', 'u:$6$abcdefgh$' + 'x' * 86 + '\n')
        self.write('RULES', "rule mine {\n text = 'kwyjibo'\n class = full }\n")
        self.names['CSV'] = os.path.join(folder, 'rows.csv')

    def write(self, name, text):
        path = self.names[name] = os.path.join(self.folder, name)
        with open(path, 'w', encoding='ascii') as file:
            file.write(text)
        os.chmod(path, 0o600)

    def value(self, value):
        if isinstance(value, list):
            return [self.value(one) for one in value]
        return self.names.get(value, value) if isinstance(value, str) else value


def test_each_key_is_applied_or_named(place):
    files = Files(place.subfolder('files'))
    options = grammar.read()
    own = {(o.section, o.name): o for o in options}
    daemon = place.sluice(start=False, http={}, listener={})
    receiver = place.receiver()

    def configure(values):
        """values: {(section, option): value}"""
        def of(section):
            return {name: files.value(value) for (at, name), value in values.items() if at == section}
        daemon.options = {'map_size': '4G', 'spool_reserve': '0', 'spool_ballast': '0', **of('')}
        daemon.listener, daemon.http, daemon.dns = of('listener'), of('http'), {'servers': ['127.0.0.1:9'], **of('dns')}
        daemon.event_log, daemon.replies = of('event_log'), of('replies')
        daemon.tls_report = of('tls_report')
        daemon.webhooks, daemon.csvs = {TITLES['webhook']: of('webhook')}, {files.names['CSV']: of('csv')}
        daemon.tenants, daemon.dkims = {'acme': of('tenant')}, {TITLES['dkim']: of('dkim')}
        daemon.suppressions = {'acme': of('suppression')}
        daemon.sources = {'given': of('source'), 'plain': {}}
        daemon.pools = {'out': {'sources': ['plain'], 'weights': [1], **of('pool')}, 'other': {'sources': ['plain']}}
        daemon.transports = {'smtp': of('transport'), 'plain': {}, 'proxied': {}}
        daemon.providers, daemon.domains = {'p': of('provider')}, {'d.test': of('domain')}
        daemon.routes = {'*': ('smtp', '[127.0.0.1]:9'),
                         'r.test': (of('route').get('transport', 'smtp'), of('route').get('nexthop', '[127.0.0.1]:8'),
                                    {k: v for k, v in of('route').items() if k not in ('transport', 'nexthop')})}

    before = {key: value for key, value in BEFORE.items() if key not in APART}
    configure(before)
    daemon.write_config()
    assert daemon.command('check').returncode == 0, daemon.command('check').stderr.decode()
    daemon.start()
    was = config_of(daemon)
    after = dict(before)
    for (section, name), option in own.items():
        if (section, name) in APART or section in ('spool', 'control', 'cluster') or (section, name) == ('event_log', 'path'):
            continue
        after[section, name] = AFTER.get((section, name)) or (AFTER[name] if name in AFTER else other(option))
    configure(after)
    answer = reload(daemon)
    now = config_of(daemon)
    named = {item['option'] for item in answer['restart']}
    missing = []
    for (section, name), option in own.items():
        if (section, name) not in after:
            continue
        title = {'listener': f'{daemon.address}:{daemon.port}', 'http': f'{daemon.address}:{daemon.http_port}',
                 'csv': files.names['CSV']}.get(section, TITLES.get(section))
        if section == 'webhook':  # of its URL no more is shown than is no secret
            title = next(shown for kind, shown, _ in now if kind == 'webhook')
        key = (section, title, name)
        if option.needs_restart:
            if not any(one.split('.')[-1].split(' ')[-1] == name for one in named):
                missing.append((key, 'not named', sorted(named)))
            assert now.get(key) == was.get(key), key
        elif shown(was.get(key)) == shown(now.get(key)):
            missing.append((key, was.get(key), now.get(key)))
    assert not missing, '\n'.join(map(str, missing))
    for name in named:
        last = name.split('.')[-1].split(' ')[-1]
        assert any(o.name == last and o.needs_restart for o in options), (name, 'is named without need')
    assert {(o.section, o.name) for o in options if o.needs_restart} == RESTART
    # What it does is tried by the other tests of reload; here that it does something at all.
    daemon.options, daemon.listener = {}, {'relay_from': ['127.0.0.0/8']}
    daemon.routes = {'*': ('plain', receiver.nexthop)}
    daemon.options['defer_transports'] = []
    reload(daemon)
    submit(daemon, 'a@a.test', ['x@x.test'], message())
    receiver.wait(1)
    assert daemon.stop() == 0
