"""What a log must not hold: complaints of a sanitizer, and errors that say to be a bug."""
import re

BAD = re.compile(r'Sanitizer|runtime error:|\berror: .*\bbug\b')


def check_log(text):
    found = [line for line in text.splitlines() if BAD.search(line)]
    assert not found, '\n'.join(found[:10]) + '\n' + text[-6000:]
