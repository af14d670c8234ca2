"""The demonstration behind ./quickstart --cluster: three nodes on three NATS servers, one of which dies with its disk.

usage: cluster_campaign.py --build FOLDER --nats PROGRAM [--messages N]

Sends a campaign through three nodes to a slow receiver. When all is accepted one node is killed and its spool deleted, most of
its mail still queued. Shows what the others see, and what becomes of the mail: the nodes that are left take it over where the
program can do that by itself (cluster { takeover }), else an operator makes the spool anew on another machine. The receiver's
list of messages is compared with what clients were told; the last line says what happened, and the exit status is 0 when
nothing was lost.
"""
import argparse
import collections
import contextlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time

from campaign import DESTINATIONS, Failure, conduct, end

NODES = ('a', 'b', 'c')
VICTIM = 'b'
# The receiver is slow enough for a queue.
ANSWER_MS = 300
PATIENCE = 240  # a node is taken over when it was not seen for 60 s

SERVER = '''\
server_name: {name}
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
jetstream {{ store_dir: "{folder}/{name}", sync_interval: always }}
cluster {{ name: sluice, listen: "127.0.0.1:{peer_port}", routes: [{routes}] }}
'''

CONFIG = '''\
hostname = "{name}.relay.test"
allow_loopback = yes            # the MX hosts of this demonstration are on loopback
minimal_backoff_time = 2s
queue_run_delay = 1s
spool {{ path = "{spool}" }}
listener "127.0.0.1:{port}" {{ relay_from = {{"127.0.0.0/8"}} }}
dns {{ servers = {{"127.0.0.1:{dns_port}"}} }}
event_log {{ path = "{spool}.events" }}
transport smtp {{ smtp_tcp_port = {sink_port}  process_limit = 50 }}
route "*" {{ transport = "smtp" }}
cluster {{
    node = "{name}"
    servers = {{{servers}}}
    monitors = {{{monitors}}}
    module = "{module}"
    max_bytes = "256M"
    log = yes                   # what is accepted is on a majority of the servers
{more}}}
'''


def free_ports(count):
    """So many that nobody has now."""
    with contextlib.ExitStack() as sockets:
        taken = [sockets.enter_context(socket.create_server(('127.0.0.1', 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in taken]


def until(condition, what, patience=PATIENCE):
    limit = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > limit:
            raise Failure(f'waited {patience} s in vain for {what}')
        time.sleep(0.1)
    return value


class Node:
    def __init__(self, stage, name, port=None, folder=None):
        self.stage, self.name = stage, name
        self.port = port or free_ports(1)[0]
        self.spool = stage.folder / (folder or name)
        self.config = stage.folder / f'{self.spool.name}.conf'
        more = '    takeover = "automatic"\n' if stage.takes_over else ''
        self.config.write_text(CONFIG.format(
            name=name, spool=self.spool, port=self.port, more=more, module=stage.build / 'engine/nodes/sluice-cluster.so',
            dns_port=stage.dns_port, sink_port=stage.sink_port,
            servers=', '.join(f'"nats://127.0.0.1:{port}"' for port, _, _ in stage.servers),
            monitors=', '.join(f'"http://127.0.0.1:{port}"' for _, port, _ in stage.servers)))
        self.process = None

    def start(self):
        self.spool.mkdir(exist_ok=True)
        self.process = self.stage.start(self.spool.name, self.stage.sluice, 'run', '-c', self.config)

    def log(self):
        return (self.stage.folder / f'{self.spool.name}.log').read_text(errors='replace')

    def command(self, *arguments):
        """(exit status, what it printed, standard error behind)"""
        done = subprocess.run([self.stage.sluice, *arguments, '-c', self.config], capture_output=True, text=True, timeout=60,
                              check=False)
        return done.returncode, done.stdout + done.stderr

    def rows(self, *arguments):
        done = subprocess.run([self.stage.sluice, *arguments, '--json', '-c', self.config], capture_output=True, text=True,
                              timeout=60, check=False)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def show(self, *arguments):
        print(f'\n$ sluice {" ".join(arguments)}        # asked at {self.name}')
        print(self.command(*arguments)[1].rstrip(), flush=True)

    def is_open(self):
        if self.process.poll() is not None:
            raise Failure(f'node {self.name} ended with {self.process.returncode}: {" / ".join(self.log().splitlines()[-3:])}')
        return 'log: it works' in self.log()


class ClusterStage:
    """What runs: the servers, a name server, a receiver and the nodes, in a folder of their own."""

    def __init__(self, args, processes):
        self.processes, self.build = processes, args.build.absolute()
        self.sluice = str(self.build / 'engine/sluice')
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='sluice-cluster.'))
        ports = free_ports(11)
        self.dns_port, self.sink_port = ports[:2]
        self.servers = [tuple(ports[2 + 3 * i:5 + 3 * i]) for i in range(3)]
        # Whether nodes take over by themselves is the program's to say.
        options = subprocess.run([self.sluice, 'check', '--reference'], capture_output=True, text=True, check=True).stdout
        self.takes_over = re.search(r'^### takeover$', options, re.M) is not None
        for name in NODES:
            (self.folder / f'n{NODES.index(name)}').mkdir()

    def start(self, name, *arguments):
        """Its standard error goes to NAME.log, its standard output to NAME.out."""
        with open(self.folder / f'{name}.log', 'ab') as log, open(self.folder / f'{name}.out', 'wb') as output:
            process = subprocess.Popen([str(argument) for argument in arguments], stdout=output, stderr=log,
                                       stdin=subprocess.DEVNULL, start_new_session=True)  # Ctrl-C is for this script only
        self.processes.append(process)
        return process

    def start_servers(self, program):
        routes = ', '.join(f'nats://127.0.0.1:{peer}' for _, _, peer in self.servers)
        for number, (port, monitor_port, peer_port) in enumerate(self.servers):
            conf = self.folder / f'n{number}.nats'
            conf.write_text(SERVER.format(name=f'n{number}', folder=self.folder, port=port, monitor_port=monitor_port,
                                          peer_port=peer_port, routes=routes))
            self.start(f'nats{number}', program, '-c', conf)

    def start_receiver(self):
        bench = self.build / 'bench'
        self.start('zone', bench / 'sluice-zone', '--listen', f'127.0.0.1:{self.dns_port}', 'd#.test MX 10 mx.d#.test',
                   'mx.d#.test A 127.0.1.#')
        return self.start('sink', bench / 'sluice-sink', '--listen', f'127.0.1.1-127.0.1.{DESTINATIONS}:{self.sink_port}',
                          '--delay-dot', ANSWER_MS, '--ledger', self.folder / 'received')

    def send(self, node, messages):
        return self.start(f'source-{node.name}', self.build / 'bench/sluice-source', '--to', f'127.0.0.1:{node.port}',
                          '--messages', messages, '--connections', 20, '--domains', f'd%d.test:{DESTINATIONS}', '--id-prefix',
                          node.name, '--seed', NODES.index(node.name) + 1, '--ledger', self.folder / f'sent-{node.name}')

    def lines(self, name):
        path = self.folder / name
        text = path.read_text(encoding='utf-8') if path.exists() else ''
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith('\n')]

    def accepted(self, names=NODES):
        """ids of messages of which clients were told that these nodes accepted them"""
        return {line['id'] for name in names for line in self.lines(f'sent-{name}') if line['event'] in ('acked', 'accepted')}

    def arrived(self):
        """how often each id arrived"""
        return collections.Counter(line['id'] for line in self.lines('received'))


def wait_arrived(stage, accepted, what):
    """Until every accepted message arrived; says each two seconds how many did."""
    begun = shown = time.monotonic()
    while True:
        count = len(accepted & stage.arrived().keys())
        now = time.monotonic()
        if now - shown > 2 or count == len(accepted):
            print(f'{now - begun:5.1f} s  arrived {count:,} of {len(accepted):,}', flush=True)
            shown = now
        if count == len(accepted):
            return now - begun
        if now - begun > PATIENCE:
            raise Failure(f'{len(accepted) - count:,} messages are lost, or did not arrive {what} within {PATIENCE} s')
        time.sleep(0.2)


def restore(stage, lost):
    """What an operator does: another machine, the node's name and configuration, a spool from the log."""
    node = Node(stage, lost.name, lost.port, f'{lost.name}-again')
    print(f'\n== node {lost.name} on another machine: its spool made anew from what the servers have')
    print(f'\n$ sluice repair --from-log {lost.name}')
    code, text = until(lambda: (done := node.command('repair', '--from-log', lost.name))[0] == 0 and done, 'the log', 60)
    print(text.rstrip(), flush=True)
    assert code == 0
    node.start()
    until(node.is_open, 'the node that is made anew')
    print(*[line.partition(' ')[2] for line in node.log().splitlines() if 'may repeat' in line], sep='\n')
    return node, f'made anew from the log: {re.search(r"([0-9]+) messages", text).group(1)} messages'


def watch_takeover(nodes, lost):
    """Until the others have taken the node's mail over, which they say in their logs."""
    begun = time.monotonic()
    print(f'\n== the others wait for node {lost.name}, which may come back, and take it over', flush=True)

    def told():
        return [(node.name, line.partition(' ')[2]) for node in nodes for line in node.log().splitlines()
                if re.search(rf'node {lost.name} is |is taken over: [0-9]+ messages', line)]
    seen = []
    while not any('is taken over' in line for _, line in seen):
        for name, line in until(lambda: [new for new in told() if new not in seen], 'somebody who takes over'):
            print(f'{time.monotonic() - begun:5.1f} s  {name} says: {line}', flush=True)
            seen.append((name, line))
    takers = {name for name, line in seen if 'is taken over' in line}
    total = sum(int(found.group(1)) for _, line in seen if (found := re.search(r'taken over: ([0-9]+) messages', line)))
    return f'taken over by {" and ".join(sorted(takers))}: {total:,} messages'


def campaign(stage, args):
    total = args.messages - args.messages % len(NODES)
    print(f'== three NATS servers, three nodes with a log on them, a receiver that answers after {ANSWER_MS} ms', flush=True)
    stage.start_servers(args.nats)
    sink = stage.start_receiver()
    nodes = {name: Node(stage, name) for name in NODES}
    for node in nodes.values():
        node.start()
    until(lambda: all(node.is_open() for node in nodes.values()), 'nodes with a log')
    first, lost = nodes[NODES[0]], nodes[VICTIM]
    until(lambda: sum(row.get('state') == 'alive' for row in first.rows('cluster')) == len(NODES), 'nodes that see each other')
    print(f'== campaign: {total:,} messages of 4 KB, a third to each node')
    sources = [stage.send(node, total // len(NODES)) for node in nodes.values()]
    for source in sources:
        if source.wait(PATIENCE) != 0:
            raise Failure('a source ended before all was accepted')
    accepted = stage.accepted()
    first.show('counts', '--by', 'state', '--all-nodes')
    print(f'\n== node {lost.name}: kill -9, and its spool is deleted', flush=True)
    lost.process.kill()
    lost.process.wait()
    begun = time.monotonic()
    shutil.rmtree(lost.spool)
    theirs = stage.accepted([lost.name])
    missing = len(theirs - stage.arrived().keys())
    print(f'{missing:,} of the {len(theirs):,} messages that it accepted have not arrived', flush=True)
    first.show('counts', '--by', 'state', '--all-nodes')
    others = [node for node in nodes.values() if node is not lost]
    if stage.takes_over:
        what = watch_takeover(others, lost)
        running = others
    else:
        again, what = restore(stage, lost)
        running = [*others, again]
    wait_arrived(stage, accepted, f'after node {lost.name} was lost')
    until(lambda: sum(row.get('messages', 0) for row in first.rows('status', '--all-nodes')) == 0, 'empty queues')
    took = time.monotonic() - begun
    first.show('status', '--all-nodes')
    first.show('cluster')
    for node in running:
        end(node.process, f'node {node.name}')
    end(sink, 'the receiver')
    arrived = stage.arrived()
    repeated = sum(count - 1 for count in arrived.values())
    return (f'{len(accepted):,} accepted; node {lost.name} was lost with its disk and {missing:,} of them, and was {what}; '
            f'{len(accepted & arrived.keys()):,} delivered within {took:.0f} s, {len(accepted - arrived.keys()):,} lost, '
            f'{repeated:,} repeated')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--build', type=pathlib.Path, required=True)
    parser.add_argument('--nats', type=pathlib.Path, required=True)
    parser.add_argument('--messages', type=int, default=6000)
    args = parser.parse_args()
    result, status = conduct(lambda processes: ClusterStage(args, processes), lambda stage: campaign(stage, args))
    print(f'\n{result}')
    return status


if __name__ == '__main__':
    raise SystemExit(main())
