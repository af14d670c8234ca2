"""`sluice dkim`: what has to be published for the keys that sign, and whether it is."""
import json
import os

import pytest

from support.dns_server import DnsServer
from support.signing_key import make_signing_key

NAME = 's1._domainkey.example.com'


class Keys:
    """Two keys of example.com and one of a domain that belongs to a tenant, with a name server."""

    def __init__(self, place):
        self.texts, dkims = {}, {}
        self.dns = place.keep(DnsServer())
        for name, bits in ((NAME, 2048), ('s2._domainkey.example.com', 0),
                           ('k._domainkey.acme.example', 0)):
            path = os.path.join(place.folder, name + '.pem')
            self.texts[name] = make_signing_key(path, bits)
            dkims[name] = {'key': path}
        self.daemon = place.sluice(start=False, dkims=dkims,
                                   tenants={'acme': {'from_domains': ['acme.example']}},
                                   dns={'servers': [self.dns.name]})

    def publish(self, **changed):
        self.dns.zone = {name: [('TXT', text)] for name, text in {**self.texts, **changed}.items()}

    def ask(self, *args):
        return self.daemon.command('dkim', *args)

    def one(self, name=NAME):
        done = self.ask('--json', name)
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def keys(place):
    return Keys(place)


def test_published_as_it_should_be(keys):
    keys.publish()
    done = keys.ask('example.com')
    text = done.stdout.decode()
    assert done.returncode == 0 and not done.stderr
    assert text.count('published  the published record fits the key') == 2
    for name in (NAME, 's2._domainkey.example.com'):
        assert name in text and keys.texts[name] in text
    assert 'rsa-sha256, 2048 bits' in text and 'ed25519-sha256, 256 bits' in text
    assert keys.ask().stdout.count(b'fits the key') == 3


def test_long_record_in_strings(keys):
    """What a zone file gets is what a server gives back: the strings of one record are put together."""
    lines = keys.ask('--zone', NAME).stdout.decode()
    assert lines.startswith(NAME + '. IN TXT ( "v=DKIM1; k=rsa; p=')
    strings = lines.split('( "')[1].split('" )')[0].split('" "')
    assert len(strings) == 2 and max(map(len, strings)) <= 255
    assert ''.join(strings) == keys.texts[NAME]
    assert not keys.dns.questions


@pytest.mark.parametrize('text, verdict', [
    ('v=DKIM1; k=rsa; p=', 'revokes the key'),
    ('v=DKIM1; k=ed25519; p=AAAA', 'another algorithm'),
    ('v=DKIM1; k=rsa; p=AAAA', 'another key'),
    ('v=DKIM1; h=sha1; k=rsa; p=KEY', 'sha256'),
    ('v=DKIM1; k=rsa; s=other; p=KEY', 'not for mail'),
    ('v=DKIM1; k=rsa; p', 'no sense'),
    ('v=spf1 -all', 'no record is published'),
])
def test_what_differs(keys, text, verdict):
    text = text.replace('KEY', keys.texts[NAME].split('p=')[1])
    keys.publish(**{NAME: text})
    done = keys.ask(NAME)
    assert done.returncode == 65 and verdict in done.stdout.decode()
    assert 'there is   ' + text in done.stdout.decode()
    code, one = keys.one()
    assert code == 65 and verdict in one['verdict'] and not one['fits'] and one['answered']
    assert one['published'] == [text] and one['record'] == keys.texts[NAME]


def test_none_and_several(keys):
    code, one = keys.one()
    assert code == 65 and 'no record is published' in one['verdict']
    keys.dns.zone = {NAME: [('TXT', keys.texts[NAME]), ('TXT', keys.texts[NAME])]}
    code, one = keys.one()
    assert code == 65 and 'several' in one['verdict']


def test_testing(keys):
    keys.publish(**{NAME: keys.texts[NAME] + '; t=y'})
    code, one = keys.one()
    assert code == 0 and one['fits'] and one['testing']
    assert b't=y' in keys.ask(NAME).stdout


def test_no_answer(keys):
    keys.dns.zone = {NAME: 'SERVFAIL'}
    code, one = keys.one()
    assert code == 75 and not one['answered'] and 'no name server answered' in one['verdict']


def test_whose_domain(keys):
    keys.publish()
    done = keys.ask('acme.example')
    assert done.returncode == 68 and b'--tenant' in done.stderr and not done.stdout
    assert keys.ask('--tenant', 'acme', 'acme.example').returncode == 0
    assert keys.ask('mail.example.com').stdout.count(b'fits the key') == 2  # the parent's
    done = keys.ask('other.test')
    assert done.returncode == 68 and b'no key signs mail from other.test' in done.stderr


def test_no_section(place):
    daemon = place.sluice(start=False)
    done = daemon.command('dkim')
    assert done.returncode == 68 and b'no section dkim' in done.stderr


def test_key_that_cannot_sign(keys):
    path = keys.daemon.dkims[NAME]['key']
    os.chmod(path, 0o644)
    done = keys.ask(NAME)
    assert done.returncode == 78 and b'sluice.conf:' in done.stderr and not done.stdout


def test_hostile_record(keys):
    """What strangers published gets no control of a terminal."""
    keys.publish(**{NAME: 'v=DKIM1; p=\x1b[31m\x07red'})
    done = keys.ask(NAME)
    assert done.returncode == 65 and b'\x1b' not in done.stdout and b'\x07' not in done.stdout
