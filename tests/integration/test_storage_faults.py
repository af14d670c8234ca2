"""Storage that fails under the daemon: EIO and ENOSPC at the n-th write, sync or other call. Mail that
is not stored is never accepted, nothing accepted is lost, and all goes on by itself."""
import concurrent.futures
import os
import resource
import smtplib

import pytest

from support.client import Client, message
from support.tools import PRELOAD
from support.wait import until

pytestmark = pytest.mark.skipif(not os.path.exists(PRELOAD), reason='no fault library here')


class Bed:
    """A daemon whose storage can be made to fail while a switch file exists."""

    def __init__(self, place, **fault):
        self.receiver = place.receiver()
        self.daemon = place.sluice(start=False, routes={'*': ('smtp', self.receiver.nexthop)})
        self.switch = os.path.join(self.daemon.folder, 'switch')
        self.daemon.env = {'LD_PRELOAD': PRELOAD, 'FAULT_FOLDER': self.daemon.spool,
                           'FAULT_SWITCH': self.switch, **fault}
        self.accepted = []
        self.refused = []
        self.unknown = []
        self.number = 0

    def start(self):
        self.daemon.start()
        return self

    def on(self):
        with open(self.switch, 'w', encoding='ascii'):
            pass

    def off(self):
        if os.path.exists(self.switch):
            os.unlink(self.switch)

    def offer(self, size=500):
        """One message, and what became of it."""
        self.number += 1
        name = f'm{self.number}@x.test'
        try:
            with Client(self.daemon) as client:
                client.ehlo()
                reply = client.say('MAIL FROM:<a@a.test>')
                if reply.code == 250:
                    client.say(f'RCPT TO:<{name}>', 250)
                    reply = client.say('DATA')
                if reply.code == 354:
                    body = message(name) + b'x' * 70 + b'\r\n'
                    client.send(body + (b'y' * 98 + b'\r\n') * (size // 100) + b'.\r\n')
                    reply = client.reply()
        except (EOFError, OSError):
            self.unknown.append(name)
            return None
        if reply.code == 250:
            self.accepted.append(name)
        else:
            assert 400 <= reply.code < 500, reply
            self.refused.append(name)
        return reply.code

    def is_accepting(self):
        return self.offer() == 250

    def check(self):
        """After the fault: everything accepted arrived, once, and nothing that was refused."""
        got = until(lambda: {r for m in list(self.receiver.messages) for r in m.recipients} >=
                    set(self.accepted) and [r for m in list(self.receiver.messages)
                                            for r in m.recipients],
                    lambda: (f'{set(self.accepted)} to arrive, lost: ' + str(
                        set(self.accepted) - {r for m in self.receiver.messages
                                              for r in m.recipients}) +
                             self.daemon.log()[-2000:]))
        assert not set(got) & set(self.refused)
        assert len(got) == len(set(got)), got
        assert set(got) <= set(self.accepted) | set(self.unknown)


KINDS = {
    'eio': {'FAULT_ERRNO': 'EIO'},
    'enospc': {'FAULT_ERRNO': 'ENOSPC'},
    'eio for long': {'FAULT_ERRNO': 'EIO', 'FAULT_TIMES': '3'},
    'enospc for long': {'FAULT_ERRNO': 'ENOSPC', 'FAULT_TIMES': '3'},
    'done but failed': {'FAULT_ERRNO': 'EIO', 'FAULT_ACTION': 'late'},
    'half': {'FAULT_ERRNO': 'ENOSPC', 'FAULT_ACTION': 'short'},
}
CALLS = ['write', 'sync', 'write,sync,size,open,name']
POINTS = (1, 2, 3, 4, 5, 7, 9, 12, 16)


def one_fault(place, calls, kind, at):
    bed = Bed(place, FAULT_AT=str(at), FAULT_CALLS=calls, **KINDS[kind]).start()
    bed.on()
    for n in range(8):
        bed.offer(200000 if n == 5 else 500)
    until(bed.is_accepting, lambda: f'mail to be accepted again:\n{bed.daemon.log()}')
    bed.check()
    bed.daemon.wait_empty()
    assert bed.daemon.stop() == 0
    bed.receiver.close()
    return bool(bed.refused)


@pytest.mark.parametrize('kind', KINDS)
def test_one_fault(place, kind):
    """At the n-th call, for many n, each in a daemon of its own."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=6) as pool:
        jobs = [pool.submit(one_fault, place, calls, kind, at) for calls in CALLS for at in POINTS]
        refused = [job.result() for job in jobs]
    assert sum(refused) >= 3  # the faults hit intake; some hit what else is written


def send_one(daemon, name):
    """The code that the end of one message is answered with; or of an earlier command, as the storage may fail at any time."""
    with Client(daemon) as client:
        client.ehlo()
        for command, wanted in ((f'MAIL FROM:<{name}@sender.test>', 250), (f'RCPT TO:<{name}@x.test>', 250), ('DATA', 354)):
            code = client.say(command).code
            if code != wanted:
                return code
        client.send(message(name, X_Tenant=name[0]) + b'.\r\n')
        return client.reply().code


def one_fault_among_results(place, calls, kind, at):
    """Mail that is deferred once, refused, or delivered: each of it ends once, and in nobody's count."""
    deferred = set()

    def answers(verb, argument, _):
        name = argument[argument.find('<') + 1:argument.find('@')] if verb == 'RCPT' else ''
        if name.startswith('late') and name not in deferred:
            deferred.add(name)
            return '451 4.3.0 later'
        return '550 5.1.1 no' if name.startswith('bad') and 'x.test' in argument else None
    receiver = place.receiver(answers=answers)
    daemon = place.sluice(start=False, routes={'*': ('smtp', receiver.nexthop)}, listener={'tenant_header': 'X-Tenant'},
                          tenants={'*': {'queue_limit': 1000}})
    switch = os.path.join(daemon.folder, 'switch')
    daemon.env = {'LD_PRELOAD': PRELOAD, 'FAULT_FOLDER': daemon.spool, 'FAULT_SWITCH': switch, 'FAULT_AT': str(at),
                  'FAULT_CALLS': calls, **KINDS[kind]}
    daemon.start()
    with open(switch, 'w', encoding='ascii'):
        pass
    names = [f'{what}{number}' for number in range(6) for what in ('good', 'late', 'bad')]
    accepted = [name for name in names if send_one(daemon, name) == 250]
    until(lambda: send_one(daemon, 'good') == 250, lambda: f'mail to be accepted again:\n{daemon.log()}')
    wanted = sorted([f'{name}@{"sender" if name.startswith("bad") else "x"}.test' for name in accepted] + ['good@x.test'])

    def got():
        return sorted(r for m in list(receiver.messages) for r in m.recipients)
    until(lambda: set(got()) >= set(wanted), lambda: f'{set(wanted) - set(got())} to arrive:\n{daemon.log()}')
    daemon.wait_empty()
    until(lambda: all(row['queued'] == 0 for row in daemon.query('tenants')), lambda: daemon.query('tenants'))
    assert daemon.stop() == 0
    assert got() == wanted
    receiver.close()


@pytest.mark.parametrize('kind', KINDS)
def test_one_fault_among_results(place, kind):
    with concurrent.futures.ThreadPoolExecutor(max_workers=6) as pool:
        jobs = [pool.submit(one_fault_among_results, place, calls, kind, at) for calls in CALLS[:2] for at in (1, 4, 9, 17, 30)]
        for job in jobs:
            job.result()


@pytest.mark.parametrize('error', ['EIO', 'ENOSPC', 'EDQUOT', 'EROFS'])
def test_storage_is_gone_and_comes_back(place, error):
    bed = Bed(place, FAULT_AT='1', FAULT_TIMES='0', FAULT_ERRNO=error,
              FAULT_CALLS='write,sync,size').start()
    for _ in range(5):
        assert bed.offer() == 250
    bed.on()
    codes = [bed.offer() for _ in range(20)]
    assert 250 not in codes and all(400 <= code < 500 for code in codes), codes
    assert bed.daemon.is_alive()
    bed.off()
    until(bed.is_accepting, lambda: f'mail to be accepted again:\n{bed.daemon.log()}')
    bed.check()
    bed.daemon.wait_empty()
    assert bed.daemon.stop() == 0


@pytest.mark.parametrize('error, code', [('ENOSPC', 452), ('EIO', 451)])
def test_a_message_that_ends_while_the_storage_is_gone(place, error, code):
    """It hears the same as one whose own commit failed."""
    bed = Bed(place, FAULT_AT='1', FAULT_TIMES='0', FAULT_ERRNO=error, FAULT_CALLS='write,sync,size').start()
    with Client(bed.daemon) as client:
        client.ehlo()
        client.mail('a@a.test', ['late@x.test'])
        client.say('DATA', 354)
        bed.on()
        assert bed.offer() == code
        client.send(b'Subject: late\r\n\r\n.\r\n')
        assert client.reply().code == code
    bed.off()
    until(bed.is_accepting, lambda: f'mail to be accepted again:\n{bed.daemon.log()}')
    bed.check()
    assert bed.daemon.stop() == 0


def test_results_wait_for_the_storage(place):
    """Delivered while nothing can be written: the result is stored later, and nothing repeats."""
    bed = Bed(place, FAULT_AT='1', FAULT_TIMES='0', FAULT_CALLS='write,sync,size')
    bed.receiver.close()
    slow = []

    def answers(verb, argument, _):
        if verb == '.':
            slow.append(argument)
            bed.on()
        return None
    bed.receiver = place.receiver(answers=answers)
    bed.daemon.routes = {'*': ('smtp', bed.receiver.nexthop)}
    bed.daemon.write_config()
    bed.start()
    assert bed.offer() == 250
    until(lambda: bed.receiver.messages, 'the delivery')
    code = until(lambda: bed.offer(), 'an answer')
    assert code != 250
    bed.off()
    bed.receiver.answers = None
    bed.daemon.wait_empty()
    until(bed.is_accepting, 'mail to be accepted again')
    bed.check()
    assert bed.daemon.stop() == 0


def test_stop_while_the_storage_is_gone(place):
    """It ends, and what was accepted is there at the next start."""
    bed = Bed(place, FAULT_AT='1', FAULT_TIMES='0', FAULT_CALLS='write,sync,size')
    bed.daemon.transports = {'smtp': {'hold': True}}
    bed.daemon.write_config()
    bed.start()
    for _ in range(5):
        assert bed.offer() == 250
    bed.on()
    assert bed.offer() != 250
    bed.daemon.signal(15)
    bed.daemon.wait_exit()
    bed.off()
    bed.daemon.transports = {'smtp': {}}
    bed.daemon.write_config()
    bed.daemon.start()
    bed.check()


def test_out_of_descriptors(place):
    """New clients wait; the daemon goes on."""
    receiver = place.receiver()
    daemon = place.sluice(routes={'*': ('smtp', receiver.nexthop)})
    pid, kind = daemon.process.pid, resource.RLIMIT_NOFILE
    _, hard = resource.prlimit(pid, kind)
    used = len(os.listdir(f'/proc/{pid}/fd'))
    resource.prlimit(pid, kind, (used + 10, hard))
    clients = []
    for _ in range(30):
        client = Client(daemon, greet=False)
        clients.append(client)
    assert daemon.is_alive()
    for client in clients:
        client.close()
    resource.prlimit(pid, kind, (hard, hard))

    def works():
        try:
            with smtplib.SMTP('127.0.0.1', daemon.port, timeout=10) as client:
                client.sendmail('a@a.test', ['x@x.test'], 'Subject: x\r\n\r\nx\r\n')
            return True
        except OSError:
            return False
    until(works, 'a client to be served')
    receiver.wait()
