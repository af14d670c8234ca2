"""Let a build's compiler look at every source and make nothing of it: its warnings, without their price.

usage: front_end.py FOLDER     FOLDER: configured by meson; what it generates of sources is made

Warnings of clang come from its front end, those about thread roles too. Prints what it says of each
source that it does not accept; the exit status is 0 when it accepts all."""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys


def look(folder, command):
    words = shlex.split(command)
    # From here on meson's command says what is written where; its last word is the source.
    words = words[:words.index('-MD')] + ['-fsyntax-only', words[-1]]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


def main():
    folder = sys.argv[1]
    with open(os.path.join(folder, 'compile_commands.json'), encoding='utf-8') as file:
        entries = json.load(file)
    generated = {entry['file'] for entry in entries if not entry['file'].startswith('..')}
    subprocess.run(['ninja', '-C', folder, *sorted(generated)], check=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        looks = list(pool.map(lambda entry: look(folder, entry['command']), entries))
    for done in looks:
        if done.returncode != 0:
            print(done.stderr)
    refused = sum(done.returncode != 0 for done in looks)
    print(f'{refused} of {len(looks)} sources are not accepted')
    sys.exit(refused != 0 or not looks)


main()
