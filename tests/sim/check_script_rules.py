"""usage: check_script_rules.py SLUICE_SIM. What sluice-sim script refuses of feedback, and says."""
import subprocess
import sys
import tempfile

READ = 'transport destination_concurrency_negative_feedback 1/sqrt_concurrency\n'
CASES = [
    (READ + 'transport concurrency_feedback_rule postfix3\nselect\n> none\n',
     ':4: bad feedback: sqrt_concurrency needs concurrency_feedback_rule readme'),
    ('transport concurrency_feedback_rule postfix3\n' + READ + 'select\n> none\n',
     ':4: bad feedback: sqrt_concurrency needs concurrency_feedback_rule readme'),
    ('transport destination_concurrency_negative_feedback 1/root\n', ':2: bad feedback'),
    ('transport concurrency_feedback_rule postfix\n', ':2: unknown concurrency_feedback_rule'),
    (READ + 'transport concurrency_feedback_rule readme\nselect\n> none\n', None),
    ('transport scheduler lifo\n', ':2: unknown scheduler'),
    ('transport scheduler fifo\nselect\n> none\n', None),
    (READ + 'select\n> none\n', None),
]

for script, complaint in CASES:
    with tempfile.NamedTemporaryFile('w') as file:
        file.write('=== case 1\n' + script)
        file.flush()
        done = subprocess.run([sys.argv[1], 'script', file.name], capture_output=True, text=True,
                              check=False)
        if complaint is None:
            assert (done.returncode, done.stdout, done.stderr) == (0, '1 passed, 0 failed\n', ''), \
                (script, done)
        else:
            assert done.returncode == 2 and done.stderr == file.name + complaint + '\n', \
                (script, done)
