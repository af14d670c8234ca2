"""What signing, return addresses, suppression and TLS reports cost a message when none of them is
configured, as a share of its instructions; fails beyond a bound.

usage: check_unused.py BUILD [--functions]
BUILD is the folder of a release build. Its daemon runs under valgrind's callgrind, without any of these
sections, takes messages from sluice-source and delivers them to sluice-sink, twice: with few messages
and with many. The difference is what messages take. Counted are calls of functions of these parts (by
their names, see PARTS) from all other functions, with all that is called by them. What is left of a part
in its callers, the test of a pointer or of a number, has no name and is not counted. --functions prints
what each of them takes.
"""
import collections
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

FEW, MANY = 100, 300
SHARE_MAX = 0.005
KNOWN_MIN = 20  # functions of PARTS that are called: fewer means that they have other names
PARTS = re.compile(r'dkim|body_tap|key_choice|key_ring|from_domain|seal|signing|sign_load|signer|heard|hearing|hearer|'
                   r'return_(book|keys|names|token)|suppress|spool_suppress|asks_suppressions|tls_(tally|day|report)')
CONFIG = '''hostname = "relay.test"
workers = 1
allow_loopback = yes
spool {{ path = "{folder}/spool" }}
map_size = "1G"
event_log {{ path = "{folder}/events.jsonl" }}
listener "127.0.0.1:{port}" {{ relay_from = {{"127.0.0.0/8"}} }}
transport smtp {{ }}
route "*" {{ transport = "smtp" nexthop = "[127.0.0.1]:{sink}" }}
'''


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(('127.0.0.1', 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_for(path, text, process):
    while True:
        with open(path, encoding='utf-8') as file:
            log = file.read()
        if text in log:
            return
        if process.poll() is not None:
            sys.exit(f'Bail out! the daemon ended:\n{log}')
        time.sleep(0.05)


def carry(build, messages):
    """What the daemon took for them: callgrind's output."""
    with tempfile.TemporaryDirectory(prefix='sluice-unused-') as folder:
        port, sink_port = free_ports(2)
        os.mkdir(f'{folder}/spool')
        with open(f'{folder}/sluice.conf', 'w', encoding='utf-8') as file:
            file.write(CONFIG.format(folder=folder, port=port, sink=sink_port))
        sink = subprocess.Popen([f'{build}/bench/sluice-sink', '--listen', f'127.0.0.1:{sink_port}', '--messages', str(messages)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(f'{folder}/log', 'w', encoding='utf-8') as log:
            daemon = subprocess.Popen(['valgrind', '--tool=callgrind', f'--callgrind-out-file={folder}/out',
                                       f'{build}/engine/sluice', 'run', '-c', f'{folder}/sluice.conf'],
                                      stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(f'{folder}/log', 'is running', daemon)
            subprocess.run([f'{build}/bench/sluice-source', '--to', f'127.0.0.1:{port}', '--messages', str(messages)],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            sink.wait()
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
        finally:
            for process in (sink, daemon):
                if process.poll() is None:
                    process.kill()
                    process.wait()
        with open(f'{folder}/out', encoding='utf-8') as file:
            return file.read()


def read(output):
    """(instructions in all, {function of the parts: instructions in calls of it by others})"""
    names, costs = {}, collections.Counter()
    total = caller = callee = None
    is_call = False
    for line in output.splitlines():
        if match := re.match(r'(c?fn)=\((\d+)\)(?: (.*))?$', line):
            name = names.setdefault(match[2], match[3])
            caller, callee = (caller, name) if match[1] == 'cfn' else (name, None)
        elif line.startswith('calls='):
            is_call = True
        elif is_call:
            is_call = False
            if PARTS.match(callee) and not PARTS.match(caller):
                costs[callee] += int(line.split()[-1])
        elif match := re.match(r'(?:totals|summary): (\d+)', line):
            total = int(match[1])
    return total, costs


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[1:] not in ([], ['--functions']):
        sys.exit(__doc__)
    (few, few_costs), (many, many_costs) = (read(carry(arguments[0], messages)) for messages in (FEW, MANY))
    each = (many - few) / (MANY - FEW)
    costs = {name: (cost - few_costs[name]) / (MANY - FEW) for name, cost in many_costs.items()}
    share = sum(costs.values()) / each
    if arguments[1:]:
        for name, cost in sorted(costs.items(), key=lambda item: -item[1]):
            print(f'# {name:40} {cost:10,.1f}')
    print('1..1')
    is_good = each > 0 and len(costs) >= KNOWN_MIN and share <= SHARE_MAX
    print(f'{"ok" if is_good else "not ok"} 1 - what is not configured takes {sum(costs.values()):,.0f} of {each:,.0f} '
          f'instructions of a message: {share:.2%}, at most {SHARE_MAX:.1%}')
    sys.exit(not is_good)


main()
