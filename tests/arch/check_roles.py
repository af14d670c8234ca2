#!/usr/bin/env python3
"""clang notices a function of a thread that is called on another one: base/post.h, ON_ROLE.

usage: check_roles.py CLANG SOURCE_DIR

Each case is the body of a function of a stranger, who has a worker; clang has to warn of those that
do not prove that they are on that worker's thread, and of no others.
"""
import subprocess
import sys

CASES = [
    (True, '(void)post_flush(&w->post);'),
    (True, 'struct letter letter; (void)post_take(&w->post, &letter);'),
    (True, 'post_nap(&w->post, USEC_NEVER);'),
    (True, 'worker_run_ready(w);'),
    (True, 'outbound_deliver(w, d);'),
    (True, 'post_assert_owner(&other->post); outbound_deliver(w, d);'),
    (True, 'if (d == NULL) { post_assert_owner(&w->post); } outbound_deliver(w, d);'),
    (False, 'post_assert_owner(&w->post); outbound_deliver(w, d);'),
    (False, 'post_assert_owner(&w->post); (void)post_flush(&w->post); worker_run_ready(w);'),
    (False, 'mailbox_wake(&w->post.box);'),
]
SOURCE = '''#include "engine/outbound/outbound.h"
#include "engine/worker/worker.h"
void stranger(struct worker *w, struct worker *other, struct delivery *d);
void stranger(struct worker *w, struct worker *other, struct delivery *d)
{
    %s
}
'''


def warns(clang, folder, body):
    command = [clang, '-fsyntax-only', '-std=gnu17', '-D_GNU_SOURCE', '-Wthread-safety',
               '-Werror=thread-safety', '-I', folder, '-x', 'c', '-']
    done = subprocess.run(command, input=SOURCE % body, capture_output=True, text=True)
    faults = [line for line in done.stderr.splitlines() if ' error: ' in line]
    if any('-Wthread-safety' not in line for line in faults):
        sys.exit(done.stderr)
    return done.returncode != 0


def main():
    failed = False
    print(f'1..{len(CASES)}')
    for number, (expected, body) in enumerate(CASES, 1):
        is_right = warns(sys.argv[1], sys.argv[2], body) == expected
        failed |= not is_right
        print(f'{"ok" if is_right else "not ok"} {number} - '
              f'{"noticed" if expected else "accepted"}: {body}')
    sys.exit(failed)


main()
