"""REQUIRETLS and TLS-Required (RFC 8689), in and out: receivers are scripted, their domains have
policies of MTA-STS or none."""
import pytest

from support import policy_host
from support.address import fresh_address, free_port
from support.certificates import Authority
from support.client import Client, message, submit
from support.dns_server import DnsServer
from support.injection import post
from support.policy_host import PolicyHost, policy
from support.receiver import Receiver
from support.wait import until

pytestmark = pytest.mark.skipif(not policy_host.is_usable(), reason='may not bind port 443')

PROMISES = ('PIPELINING', '8BITMIME', 'REQUIRETLS')
PLAINLY = ('PIPELINING', '8BITMIME')


class Lab:
    def __init__(self, place):
        self.place, self.port = place, free_port()
        self.authority = Authority(place.subfolder('certificates'))
        self.dns = place.keep(DnsServer())
        shown = self.authority.leaf('relay.test')
        self.daemon = place.sluice(
            start=False, http={}, options={'allow_loopback': True, 'workers': 1},
            listener={'tls_certificate': shown.cert, 'tls_key': shown.key},
            dns={'servers': [self.dns.name]},
            transports={'smtp': {'smtp_tls_security_level': 'mta-sts', 'smtp_tcp_port': self.port,
                                 'smtp_tls_CAfile': self.authority.cert}})

    def receiver(self, name, extensions=PROMISES, mode='enforce', **leaf):
        """The only host of a domain, which has a policy where there is a mode."""
        shown = self.authority.leaf(f'mx.{name}', **leaf)
        receiver = self.place.keep(Receiver(address=fresh_address(), port=self.port, extensions=extensions,
                                            tls=shown.server()))
        self.dns.zone.update({name: [('MX', (10, f'mx.{name}'))], f'mx.{name}': [('A', receiver.address)]})
        if mode:
            self.dns.zone[f'_mta-sts.{name}'] = [('TXT', 'v=STSv1; id=7;')]
            host = self.place.keep(PolicyHost(self.authority.leaf(f'mta-sts.{name}').server(),
                                              policy(mode, f'mx.{name}')))
            self.dns.zone[f'mta-sts.{name}'] = [('A', host.address)]
        return receiver


def send(daemon, recipient, body, parameters=' REQUIRETLS', sender='sender@home.test'):
    with Client(daemon) as client:
        client.ehlo()
        client.starttls()
        client.ehlo()
        client.mail(sender, [recipient], parameters)
        client.data(body)


def test_it_is_offered_over_tls_alone(place):
    lab = Lab(place)
    lab.daemon.start()
    with Client(lab.daemon) as client:
        assert 'REQUIRETLS' not in client.ehlo().text
        assert client.say('MAIL FROM:<a@a.test> REQUIRETLS').code == 555
        client.starttls()
        assert 'REQUIRETLS' in client.ehlo().text.split('\n')
        assert client.say('MAIL FROM:<a@a.test> REQUIRETLS=1').code == 501
        client.say('MAIL FROM:<a@a.test> REQUIRETLS', 250)


def test_out(place):
    lab = Lab(place)
    daemon = lab.daemon
    home = lab.receiver('home.test')
    good, bare = lab.receiver('good.test'), lab.receiver('bare.test', extensions=PLAINLY)
    open_one, odd = lab.receiver('open.test', mode=None), lab.receiver('odd.test', mode=None, self_signed=True)
    signed = lab.receiver('signed.test', mode=None)  # no policy, but its MX was validated
    lab.dns.unsigned.add('open.test')
    # What is required is in force after a kill: the mail waits for it on hold.
    daemon.options['defer_transports'] = ['smtp']
    daemon.write_config()
    daemon.start()
    for name in ('good.test', 'bare.test', 'open.test', 'odd.test', 'signed.test'):
        send(daemon, f'user@{name}', message(name))
    send(daemon, 'plain@good.test', message('plain'), parameters='')
    post(daemon, {'from': 'sender@home.test', 'recipients': ['post@bare.test'], 'text': 'posted',
                  'require_tls': True}).expect(202)
    daemon.kill()
    daemon.options['defer_transports'] = []
    daemon.write_config()
    daemon.start()
    daemon.wait_event('Delivery', 'user@good.test')
    assert [m.parameters.split() for m in good.to('user@good.test')][0][-1] == 'REQUIRETLS'
    daemon.wait_event('Delivery', 'plain@good.test')
    assert 'REQUIRETLS' not in good.to('plain@good.test')[0].parameters
    for recipient, code, says in (('user@bare.test', (5, 7, 30), 'was not offered'),
                                  ('post@bare.test', (5, 7, 30), 'was not offered'),
                                  ('user@open.test', (5, 7, 10), 'proved TLS'),
                                  ('user@odd.test', (5, 7, 10), 'proved TLS')):
        event = daemon.wait_event('Bounce', recipient)
        enhanced = event['response']['enhanced_code']
        assert (enhanced['class'], enhanced['subject'], enhanced['detail']) == code, event
        assert says in event['response']['content'], event
    assert not bare.messages and not open_one.messages and not odd.messages
    daemon.wait_event('Delivery', 'user@signed.test')
    assert signed.messages[0].parameters.split()[-1] == 'REQUIRETLS'
    # Section 5: the notice is protected alike, and has no more than the header of the message.
    until(lambda: len(home.messages) == 4, lambda: f'four notices: {home.messages}\n{daemon.log()}')
    for notice in home.messages:
        assert notice.sender == '' and notice.parameters.split()[-1] == 'REQUIRETLS'
        assert b'Content-Type: text/rfc822-headers' in notice.body
        assert b'posted' not in notice.body


def test_tls_required_no(place):
    """What the receiver's policy demands does not keep such mail; other mail it does, also afterwards."""
    lab = Lab(place)
    daemon = lab.daemon
    strict = lab.receiver('strict.test', self_signed=True)
    daemon.start()
    no = b'Subject: x\r\nTLS-Required: No\r\n\r\nbody\r\n'
    submit(daemon, 'a@a.test', ['no@strict.test'], no)
    submit(daemon, 'a@a.test', ['other@strict.test'], no.replace(b'No', b'Perhaps'))
    daemon.wait_event('Delivery', 'no@strict.test')
    event = daemon.wait_event('TransientFailure', 'other@strict.test')
    assert 'self-signed' in event['response']['content'] or 'certificate' in event['response']['content'], event
    submit(daemon, 'a@a.test', ['again@strict.test'], no.replace(b'No', b'no'))
    daemon.wait_event('Delivery', 'again@strict.test')
    # MAIL goes before the header.
    send(daemon, 'both@strict.test', no)
    until(lambda: daemon.of('TransientFailure', 'both@strict.test') or daemon.of('Bounce', 'both@strict.test'),
          'a failure')
    assert sorted(r for m in strict.messages for r in m.recipients) == ['again@strict.test', 'no@strict.test']


def test_by_command(place):
    """`sluice inject --require-tls`, and the parameter that it says: neither yes nor no is a mistake."""
    lab = Lab(place)
    daemon = lab.daemon
    good, bare = lab.receiver('good.test'), lab.receiver('bare.test', extensions=PLAINLY)
    daemon.start()
    for to in ('user@good.test', 'user@bare.test'):
        done = daemon.command('inject', '--require-tls', '--from', 'sender@home.test', '--to', to, '-',
                              stdin=b'Subject: x\r\n\r\nbody\r\n')
        assert done.returncode == 0, done.stderr
    daemon.wait_event('Delivery', 'user@good.test')
    assert good.to('user@good.test')[0].parameters.split()[-1] == 'REQUIRETLS'
    assert daemon.wait_event('Bounce', 'user@bare.test')['response']['enhanced_code'] == {'class': 5, 'subject': 7, 'detail': 30}
    assert not bare.messages
    with_text = daemon.command('inject', '--from', 'a@a.test', '--to', 'user@bare.test', '-', stdin=b'Subject: x\r\n\r\nbody\r\n')
    assert with_text.returncode == 0
    daemon.wait_event('Delivery', 'user@bare.test')
    answer = post(daemon, {'from': 'a@a.test', 'recipients': ['user@good.test'], 'text': 'x'}, '?require_tls=maybe')
    assert [where.split('.')[-1] for where in answer.places] == ['require_tls']
