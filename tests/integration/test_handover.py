"""A restart without a refused connection: the sockets pass to the next process, or are a service manager's."""
import collections
import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading

import pytest

from support.address import free_port
from support.api import Connection, get
from support.client import Client, message, submit
from support.daemon import PROGRAM
from support.wait import PATIENCE, until
from test_lanes import Bucket


class Knocking:
    """Threads that connect all the time, give a message each, and count what became of it."""

    def __init__(self, daemon, threads=4):
        self.daemon, self.ending = daemon, threading.Event()
        self.lock = threading.Lock()
        self.acknowledged, self.unsure, self.counts = [], [], collections.Counter()
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(threads)]
        for thread in self.threads:
            thread.start()

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def run(self, number):
        n = 0
        while not self.ending.is_set():
            n += 1
            recipient = f'r{number}.{n}@x.test'
            try:
                client = Client(self.daemon, greet=False)
            except OSError as error:  # what must not happen
                self.count(f'refused: {error}')
                continue
            with client:
                self.give(client, recipient)
            self.look()

    def give(self, client, recipient):
        sent = False
        try:
            if client.reply().code != 220:
                return self.count('421')
            client.ehlo('client.test')
            client.mail('a@a.test', [recipient])
            client.send('DATA\r\n')
            if client.reply().code != 354:
                return self.count('421')
            client.send(message() + b'.\r\n')
            sent = True
            if client.reply().code == 250:
                self.acknowledged.append(recipient)
                return self.count('250')
            return self.count('421')
        except (AssertionError, EOFError, OSError):
            if sent:
                self.unsure.append(recipient)
            return self.count('cut off')

    def look(self):
        connection = http.client.HTTPConnection('127.0.0.1', self.daemon.http_port, timeout=PATIENCE)
        try:
            connection.connect()
        except OSError as error:
            self.count(f'refused: {error}')
            return
        try:
            connection.request('GET', '/healthz')
            self.count(connection.getresponse().status)
        except (http.client.HTTPException, OSError):
            self.count('HTTP cut off')
        connection.close()

    def end(self):
        self.ending.set()
        for thread in self.threads:
            thread.join()


def begin(place, **options):
    receiver = place.receiver()
    daemon = place.sluice(http={}, routes={'*': ('smtp', receiver.nexthop)}, options=options)
    return daemon, receiver


def restart(daemon, count):
    """It is the same process that runs again."""
    done = daemon.command('restart')
    assert done.returncode == 0, done.stderr
    until(lambda: daemon.log().count(' is running') == count, lambda: f'{count} beginnings: {daemon.log()}')


def test_nobody_is_refused(place):
    """Three restarts, with other numbers of workers, under clients that connect all the time."""
    daemon, receiver = begin(place)
    knocking = Knocking(daemon)
    process = daemon.process.pid
    try:
        for n, workers in enumerate((3, 1, 2)):
            seen = len(knocking.acknowledged)
            until(lambda: len(knocking.acknowledged) >= seen + 20, 'mail is given')
            daemon.options['workers'] = workers
            daemon.write_config()
            restart(daemon, n + 2)
        seen = len(knocking.acknowledged)
        until(lambda: len(knocking.acknowledged) >= seen + 20, 'mail is given after the last one')
    finally:
        knocking.end()
    assert daemon.is_alive() and daemon.process.pid == process
    assert not [what for what in knocking.counts if str(what).startswith('refused')], knocking.counts
    daemon.wait_empty()
    delivered = collections.Counter(m.recipients[0] for m in list(receiver.messages))
    assert not set(knocking.acknowledged) - set(delivered), 'lost'
    assert set(delivered) <= {*knocking.acknowledged, *knocking.unsure}
    assert max(delivered.values()) == 1, 'doubled'
    assert daemon.log().count('the last stop was clean') == 3
    assert len(os.listdir(f'/proc/{process}/fd')) < 200
    assert daemon.stop() == 0


def policies(daemon):
    """How its threads get a processor; jemalloc's own thread aside."""
    tasks = pathlib.Path('/proc', str(daemon.process.pid), 'task')
    return {os.sched_getscheduler(int(task.name)) for task in tasks.iterdir()
            if not (task / 'comm').read_text().startswith('jemalloc')}


@pytest.mark.skipif(os.sched_getscheduler(0) not in (os.SCHED_OTHER, os.SCHED_BATCH), reason='a policy that somebody chose stays')
def test_thread_policy(place):
    """All threads have it, and the next process has its own and not that of the one before."""
    daemon, _ = begin(place, thread_policy='batch')
    assert policies(daemon) == {os.SCHED_BATCH}
    submit(daemon, 'a@a.test', ['r1@x.test'], message())
    daemon.wait_event('Delivery', 'r1@x.test')
    daemon.options['thread_policy'] = 'other'
    daemon.write_config()
    restart(daemon, 2)
    assert policies(daemon) == {os.SCHED_OTHER}


def counters(daemon):
    text = get(daemon, '/metrics').body.decode()
    return {line.rsplit(' ', 1)[0]: float(line.rsplit(' ', 1)[1]) for line in text.splitlines()
            if line.startswith('sluice_') and '_total' in line.split(' ')[0] + line.split('{')[0]}


def test_counters_go_on(place):
    """Over every stop in order; after a kill they begin at 0, as nobody could write them."""
    daemon, _ = begin(place)
    daemon.listener['tenant'] = 'acme'
    daemon.write_config()
    restart(daemon, 2)
    path = os.path.join(daemon.spool, 'counters')
    mail = {'sluice_messages_received_total': 3, 'sluice_recipients_delivered_total': 3,
            'sluice_tenant_messages_received_total{tenant="acme"}': 3,
            'sluice_transport_attempts_total{transport="smtp",result="delivered"}': 3}
    for n in range(3):
        submit(daemon, 'a@a.test', [f'r{n}@x.test'], message())
        daemon.wait_event('Delivery', f'r{n}@x.test')
    until(lambda: counters(daemon).items() >= mail.items(), lambda: counters(daemon))
    restart(daemon, 3)
    assert counters(daemon).items() >= mail.items() and not os.path.exists(path)
    assert daemon.stop() == 0 and os.path.exists(path)
    daemon.start()
    assert counters(daemon).items() >= mail.items()
    daemon.kill()
    daemon.start()
    assert counters(daemon)['sluice_messages_received_total'] == 0
    assert daemon.stop() == 0
    with open(path, 'w', encoding='utf-8') as file:
        file.write('{"totals": 5}')
    daemon.start()
    assert 'counters begin at 0' in daemon.log() and not os.path.exists(path)
    assert daemon.stop() == 0


def window(daemon):
    [lane] = until(lambda: [row for row in daemon.query('lanes') if 'window' in row], 'a lane')
    return lane['window']


def test_windows_go_on(place):
    """What feedback found holds over every stop in order, up to a limit that is lower by then; a kill forgets it."""
    daemon, _ = begin(place, initial_destination_concurrency=2, destination_recipient_limit=1,
                      destination_concurrency_positive_feedback=1)
    submit(daemon, 'a@a.test', [f'r{n}@x.test' for n in range(60)], message())
    daemon.wait_empty()
    grown = window(daemon)
    assert grown > 4

    def begins_with(count, expected):
        submit(daemon, 'a@a.test', [f'n{count}@x.test'], message())
        daemon.wait_event('Delivery', f'n{count}@x.test')
        assert expected <= window(daemon) <= expected + 2

    restart(daemon, 2)
    begins_with(1, grown)
    daemon.options['destination_concurrency_limit'] = 4
    daemon.write_config()
    restart(daemon, 3)
    begins_with(2, 4)
    daemon.kill()
    daemon.start()
    begins_with(3, 2)
    assert daemon.stop() == 0


class Teacher:
    """answers: takes everything at first, then so many MAILs a second, then keeps a message before its end"""

    def __init__(self):
        self.bucket, self.release = None, threading.Event()
        self.holds, self.held = False, 0

    def __call__(self, verb, argument, session):
        if verb == '.' and self.holds:
            self.held += 1
            self.release.wait(PATIENCE)
        return self.bucket and self.bucket(verb, argument, session)


def learned(daemon):
    [lane] = daemon.query('lanes')
    return lane.get('window'), [(pace['of'], pace['per_second'], pace['times'], pace['text'])
                                for pace in lane.get('paces', [])]


def test_pace_and_window_of_a_lane_go_on(place):
    """They are the same in the next process: seen there while its first message is on its way, from which nothing was
    learned yet. And it keeps to the pace, so hardly anybody is refused once more."""
    teacher = Teacher()
    receiver = place.receiver(answers=teacher)
    daemon = place.sluice(http={}, routes={'*': ('smtp', receiver.nexthop)}, options={
        'initial_destination_concurrency': 2, 'destination_recipient_limit': 1,
        'destination_concurrency_positive_feedback': 1, 'minimal_backoff_time': '300s',
        'maximal_backoff_time': '400s'})
    submit(daemon, 'a@a.test', [f'r{n}@x.test' for n in range(60)], message())
    daemon.wait_empty()
    teacher.bucket = Bucket(20, 5)
    submit(daemon, 'a@a.test', [f'p{n}@x.test' for n in range(60)], message())
    daemon.wait_empty()
    window, paces = learned(daemon)
    assert [of for of, *_ in paces] == ['messages'], paces
    refused = teacher.bucket.refused
    assert refused > 0

    teacher.holds = True
    daemon.options['initial_destination_concurrency'] = window + 5  # what a window that was forgotten would be
    daemon.write_config()
    restart(daemon, 2)
    assert learned(daemon) == (None, paces)  # no transport has used it yet
    submit(daemon, 'a@a.test', ['first@x.test'], message())
    until(lambda: teacher.held == 1, 'a message on its way')
    assert learned(daemon) == (window, paces)
    teacher.holds = False
    teacher.release.set()
    submit(daemon, 'a@a.test', [f'q{n}@x.test' for n in range(60)], message())
    daemon.wait_empty()
    assert not daemon.of('TransientFailure') and not daemon.of('Bounce')
    assert teacher.bucket.refused - refused <= refused
    assert daemon.stop() == 0


def test_a_mistake_changes_nothing(place):
    daemon, _ = begin(place)
    good = daemon.config_text()
    with open(daemon.config_path, 'a', encoding='utf-8') as config:
        config.write('nonsense = 1\n')
    done = daemon.command('restart')
    assert done.returncode == 78 and b'nonsense' in done.stderr
    with open(daemon.config_path, 'w', encoding='utf-8') as config:
        config.write(good.replace(f'listener "{daemon.address}:{daemon.port}" {{',
                                  f'listener "{daemon.address}:{daemon.port}" {{\n tls_certificate = "/none"\n tls_key = "/none"\n'))
    daemon.command('restart')
    daemon.wait_log('this process goes on')
    submit(daemon, 'a@a.test', ['b@x.test'], message())
    daemon.wait_event('Delivery')
    assert daemon.stop() == 0


def test_the_program_is_away(place, monkeypatch):
    """As in the middle of an upgrade: what runs goes on."""
    program = os.path.join(place.folder, 'sluice')
    shutil.copy(PROGRAM, program)
    monkeypatch.setattr('support.daemon.PROGRAM', program)
    daemon = place.sluice()
    os.rename(program, program + '.new')
    assert post_restart(daemon) == 202
    daemon.wait_log('this process goes on')
    os.rename(program + '.new', program)
    assert post_restart(daemon) == 202
    until(lambda: daemon.log().count(' is running') == 2, 'the next process')
    assert daemon.stop() == 0


def post_restart(daemon):
    connection = Connection(daemon)
    with contextlib.closing(connection):
        connection.request('POST', '/v1/restart', '{}', {'Content-Type': 'application/json'})
        return connection.getresponse().status


def test_a_listener_that_is_gone(place):
    """Its socket is closed, with a word in the log, and a new one is opened."""
    daemon, _ = begin(place)
    old = daemon.port
    daemon.port = free_port()
    daemon.write_config()
    restart(daemon, 2)
    daemon.wait_log(f'belongs to no section (127.0.0.1:{old})')
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(('127.0.0.1', old), PATIENCE)
    submit(daemon, 'a@a.test', ['b@x.test'], message())
    daemon.wait_event('Delivery')
    assert daemon.stop() == 0


def test_a_new_listener_whose_port_is_taken(place):
    """It is told while the daemon can still go on; and what it reserved beside it is let go."""
    daemon, _ = begin(place)
    taken = place.keep(socket.socket())
    taken.bind(('127.0.0.1', 0))
    taken.listen()
    good, free = daemon.config_text(), free_port()
    more = ''.join(f'listener "127.0.0.1:{port}" {{ relay_from = {{"127.0.0.0/8"}} }}\n'
                   for port in (free, taken.getsockname()[1]))
    write(daemon, good + more)
    assert post_restart(daemon) == 202
    daemon.wait_log('this process goes on')
    assert f'listener "127.0.0.1:{taken.getsockname()[1]}": cannot listen' in daemon.log()
    until(lambda: can_bind(free), 'the other address to be let go')
    assert daemon.is_alive()
    submit(daemon, 'a@a.test', ['b@x.test'], message())
    daemon.wait_event('Delivery', 'b@x.test')
    taken.close()
    restart(daemon, 2)
    daemon.port = free
    submit(daemon, 'a@a.test', ['c@x.test'], message())
    daemon.wait_event('Delivery', 'c@x.test')
    assert daemon.stop() == 0


def write(daemon, text):
    with open(daemon.config_path, 'w', encoding='utf-8') as config:
        config.write(text)


def can_bind(port):
    with socket.socket() as probe:
        try:
            probe.bind(('127.0.0.1', port))
        except OSError:
            return False
    return True


def test_sockets_of_a_service_manager(place):
    """As systemd gives them: LISTEN_FDS from descriptor 3 on. While no process is there, clients wait."""
    daemon, receiver = begin(place)
    assert daemon.stop() == 0
    sockets = []
    for port in (daemon.port, daemon.http_port):
        sock = place.keep(socket.socket())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(('127.0.0.1', port))
        sock.listen(100)
        sockets.append(sock.fileno())

    def run(pid='$$'):
        """By way of a shell, which gives them their numbers and has the daemon's process number."""
        high = ' '.join(f'{50 + n}<&{fd}' for n, fd in enumerate(sockets))
        low = ' '.join(f'{3 + n}<&{50 + n} {50 + n}<&-' for n in range(len(sockets)))
        command = f'exec {high}; exec {low}; LISTEN_PID={pid} LISTEN_FDS={len(sockets)} exec "$0" run -c "$1"'
        with open(daemon.log_path, 'ab') as log:
            return subprocess.Popen(['bash', '-c', command, PROGRAM, daemon.config_path], stderr=log, pass_fds=sockets)

    for n in range(3):
        with Client(daemon, greet=False) as client:  # nobody is there
            process = run()
            client.expect(220)
            client.ehlo('client.test')
            client.mail('a@a.test', [f'r{n}@x.test'])
            client.data(message())
            connection = http.client.HTTPConnection('127.0.0.1', daemon.http_port, timeout=PATIENCE)
            connection.request('GET', '/readyz')
            assert connection.getresponse().status == 200
            connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    process = run()
    until(lambda: daemon.log().count(' is running') == 5, 'the last one runs')
    until(lambda: len({m.recipients[0] for m in receiver.messages}) == 3, 'all were delivered')
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    process = run(pid='1')  # meant for another process: the addresses are taken
    assert process.wait(PATIENCE) == 69
