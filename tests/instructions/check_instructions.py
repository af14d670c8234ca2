"""Count the instructions that a message takes in each stage, and fail when it became more.

usage: check_instructions.py PROGRAM [--update]
PROGRAM is sluice-instructions of a release build. Each stage runs under valgrind's callgrind with
two numbers of messages; the difference, divided by the messages, is what one message takes without
start and end. It is compared with baseline.json in this folder, which has a set of counts for each
kind of build; one TAP line a stage, whose text is the table. A build without counts passes and says
so. --update writes what was counted into baseline.json: commit it with the change that explains it.

What a count depends on: compiler, its options and the allocator (the key in baseline.json, as
PROGRAM --build prints it, with the version of the C library), and the builds of libxxhash and
jemalloc, of which Debian 12 has one each. Not on the machine: valgrind has a processor of its own,
and where it looks at the real one the environment below takes the choice away. Only the checksum of a
record is by the widest instructions there are, which valgrind has up to AVX2: where the processor lacks
that, `record` is compared with nothing.
"""
import json
import os
import re
import shutil
import subprocess
import sys

FEW, MANY = 500, 1500  # the scheduler's queue is full from 200 on
GROWTH_MAX = 0.02
STAGES = ('receive', 'inject', 'inject-batch', 'record', 'log', 'tally', 'sign', 'schedule', 'schedule-50',
          'schedule-site', 'schedule-lanes', 'schedule-flows', 'deliver')
BASELINE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'baseline.json')

# All of the environment: its size moves the stack.
ENVIRONMENT = {
    'PATH': '/usr/bin:/bin',
    'LC_ALL': 'C',
    # The C library's string functions for any x86-64, whatever the processor has.
    'GLIBC_TUNABLES': 'glibc.cpu.hwcaps=' + ','.join('-' + name for name in (
        'AVX', 'AVX2', 'AVX512F', 'AVX512VL', 'AVX512BW', 'BMI1', 'BMI2', 'LZCNT', 'MOVBE', 'RTM',
        'SSSE3', 'SSE4_1', 'SSE4_2', 'ERMS', 'FSRM', 'AVX_Fast_Unaligned_Load',
        'Fast_Unaligned_Copy', 'Fast_Unaligned_Load')),
    # The code of OpenSSL's hashes for any x86-64, likewise.
    'OPENSSL_ia32cap': '0:0',
    # As many arenas on one processor as on a hundred; nothing returned to the kernel by the clock.
    'MALLOC_CONF': 'narenas:1,dirty_decay_ms:-1,muzzy_decay_ms:-1',
}


def run(command, program):
    """Output of the command, which names the program by the same relative path everywhere."""
    done = subprocess.run(command, cwd=os.path.dirname(os.path.abspath(program)), env=ENVIRONMENT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f'Bail out! {" ".join(command)}: exit status {done.returncode}\n{done.stdout}')
    return done.stdout


def count(program, stage, messages):
    output = run(['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null',
                  './' + os.path.basename(program), '--stage', stage, '--messages', str(messages)],
                 program)
    if f'{stage}: {messages} messages\n' not in output:
        sys.exit(f'Bail out! {stage} did not carry {messages} messages:\n{output}')
    return int(re.search(r'Collected : (\d+)', output)[1])


def count_message(program, stage):
    return round((count(program, stage, MANY) - count(program, stage, FEW)) / (MANY - FEW))


def read_baseline():
    with open(BASELINE, encoding='utf-8') as file:
        return json.load(file)


def has_avx2():
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        return ' avx2 ' in file.read()


def comparable(baseline):
    """What of a build's counts holds for this machine."""
    return {stage: count for stage, count in baseline.items() if stage != 'record' or has_avx2()}


def update(build, counts):
    baseline = read_baseline()
    baseline[build] = counts
    with open(BASELINE, 'w', encoding='utf-8') as file:
        json.dump(baseline, file, indent=4)
        file.write('\n')


def report(build, counts, baseline):
    """Print the TAP lines. returns: whether no stage grew too much"""
    is_good = True
    print(f'# instructions a message, {build}')
    print(f'# {"":19} {"counted":>8} {"baseline":>8} {"change":>8}')
    for number, (stage, counted) in enumerate(counts.items(), 1):
        before = baseline.get(stage)
        if before is None:
            print(f'ok {number} - {stage:14} {counted:8,} {"none":>8}')
            continue
        growth = counted / before - 1
        is_good &= growth <= GROWTH_MAX
        verdict = 'ok' if growth <= GROWTH_MAX else 'not ok'
        print(f'{verdict} {number} - {stage:14} {counted:8,} {before:8,} {growth:+8.1%}')
        if abs(growth) > GROWTH_MAX:
            print(f'# {stage} takes {growth:+.1%} instructions; where it is meant to: '
                  'check_instructions.py PROGRAM --update')
    if not baseline:
        print('# baseline.json knows no build like this one: nothing was compared')
    return is_good


def main():
    arguments = sys.argv[1:]
    is_update = arguments[1:] == ['--update']
    if not arguments or (len(arguments) > 1 and not is_update):
        sys.exit(__doc__)
    program = arguments[0]
    if not os.access(program, os.X_OK):
        sys.exit(f'Bail out! {program} is no program: build sluice-instructions first')
    if shutil.which('valgrind', path=ENVIRONMENT['PATH']) is None:
        sys.exit('Bail out! the package valgrind is missing')
    build = run(['./' + os.path.basename(program), '--build'], program).strip()
    print(f'1..{len(STAGES)}', flush=True)
    counts = {stage: count_message(program, stage) for stage in STAGES}
    if is_update:
        update(build, counts)
    if not report(build, counts, comparable(read_baseline().get(build, {}))):
        sys.exit(1)


main()
