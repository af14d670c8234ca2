"""What receivers' replies mean: the class in events, CSV files, counts, metrics and why; rules of the
operator's own, tried and put in force, and wrong ones that change nothing."""
import csv
import json
import os
import urllib.request

import pytest

from support import exposition
from support.api import ask
from support.client import message, submit
from support.reloading import reload
from support.wait import PATIENCE, settled, until

SAID = {
    'slow': ('MAIL', '421 4.7.28 Gmail has detected an unusual rate of unsolicited mail originating '
                     'from your IP address. - gsmtp', 'throttled', 'google-rate-of-address'),
    'listed': ('RCPT', '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using '
                       'zen.spamhaus.org', 'blocked', 'spamhaus-zen'),
    'link': ('.', '554 5.7.1 Blacklisted URL in message. (x.example) in black. See '
                  'http://lookup.uribl.com.', 'content', 'uribl'),
    'grey': ('RCPT', '450 4.2.0 Greylisted, see http://postgrey.example', 'greylisted', 'greylisted'),
    'nobody': ('RCPT', '550 5.1.1 <nobody@x.test>: Recipient address rejected: User unknown',
               'mailbox', 'unknown-user'),
    'new': ('RCPT', '450 4.9.9 kwyjibo 17', 'mailbox', None),
}


def address(word):
    """What is blocked has a receiver of its own, as nothing goes there afterwards."""
    return f'{word}@blocked.test' if word in SAID and SAID[word][2] == 'blocked' else f'{word}@x.test'


def answers(verb, argument, session):
    """By the sender's local part."""
    if verb == 'MAIL':
        session.word = argument.split('<')[1].split('@')[0]
    if verb not in ('MAIL', 'RCPT', '.'):
        return None
    stage, reply, *_ = SAID.get(getattr(session, 'word', None), (None, None))
    return reply if stage == verb else None


@pytest.fixture(scope='module')
def stage(module_place):
    receiver, blocking = (module_place.receiver(answers=answers) for _ in range(2))
    path = os.path.join(module_place.folder, 'acct.csv')
    daemon = module_place.sluice(
        http={}, csvs={path: {}}, routes={'*': ('smtp', receiver.nexthop),
                                          'blocked.test': ('smtp', blocking.nexthop)},
        options={'minimal_backoff_time': '300s', 'maximal_backoff_time': '400s'},
        replies={'files': [os.path.join(module_place.folder, 'mine.conf')]}, start=False)
    with open(daemon.replies['files'][0], 'w', encoding='ascii') as file:
        file.write('# nothing yet\n')
    daemon.start()
    # What is throttled comes first: once the lane has accepted something it would wait instead.
    for word in sorted((*SAID, 'fine'), key=lambda word: word != 'slow'):
        submit(daemon, f'{word}@a.test', [address(word)], message())
        kind = {'5': 'Bounce', '4': 'TransientFailure', '2': 'Delivery'}[SAID.get(word, (0, '2'))[1][0]]
        daemon.wait_event(kind, address(word))
    return daemon, path


@pytest.mark.parametrize('word', SAID)
def test_class_stands_in_the_event(stage, word):
    daemon, _ = stage
    [event] = [e for e in daemon.results(address(word))]
    assert event['bounce_classification'] == SAID[word][2], event


def test_what_was_delivered_has_none(stage):
    daemon, _ = stage
    [event] = daemon.results('fine@x.test')
    assert 'bounce_classification' not in event


def test_class_stands_in_the_csv(stage):
    _, path = stage

    def rows():
        if not os.path.exists(path):
            return {}
        with open(path, encoding='utf-8', newline='') as file:
            return {row['rcpt'].split('@')[0]: row for row in csv.DictReader(file)
                    if row['type'] != 'r' and row['rcpt'].endswith(('@x.test', '@blocked.test'))}
    until(lambda: len(rows()) > len(SAID), 'all rows')
    found = rows()
    assert {word: found[word]['replyClass'] for word in SAID} == {w: said[2] for w, said in SAID.items()}
    assert found['fine']['replyClass'] == ''


def test_class_is_counted(stage):
    settled(lambda: check_counts(stage[0]))


def check_counts(daemon):
    rows = ask(daemon, '/v1/responses')[1][:-1]
    by_code = {(row.get('code'), row['status']): row['class'] for row in rows}
    assert by_code[(421, '4.7.28')] == 'throttled' and by_code[(450, '4.9.9')] == 'mailbox'
    text = daemon.command('responses').stdout.decode()
    assert 'CLASS' in text and 'greylisted' in text
    status, page = ask_text(daemon, '/metrics')
    assert status == 200
    family = exposition.parse(page)['sluice_refusals_total']
    counts = {dict(labels)['class']: value for (_, labels), value in family.samples.items()}
    assert counts['throttled'] == counts['blocked'] == counts['content'] == 1
    assert len(counts) == 11 and sum(counts.values()) == len(SAID)
    family = exposition.parse(page)['sluice_tenant_refusals_total']
    assert {dict(labels)['class']: value for (_, labels), value in family.samples.items()} == {
        'content': 1, 'policy': counts['policy']}
    _, [tenant, _] = ask(daemon, '/v1/tenants')
    assert (tenant['content'], tenant['policy']) == (1, counts['policy'])
    _, rows = ask(daemon, '/v1/counts', by='class', state='deferred')
    assert {row['class'] for row in rows[:-1]} >= {'throttled', 'greylisted'}


def ask_text(daemon, path):
    with urllib.request.urlopen(f'http://127.0.0.1:{daemon.http_port}{path}', timeout=PATIENCE) as answer:
        return answer.status, answer.read()


def test_why_names_class_and_rule(stage):
    for word in ('slow', 'grey', 'new'):
        settled(lambda: check_why(stage[0], word))


def check_why(daemon, word):
    _, [found, _] = ask(daemon, '/v1/messages', recipient=f'{word}@x.test')
    _, [answer] = ask(daemon, '/v1/why', message=found['id'])
    [link] = [one for one in answer['chain'] if 'class' in one]
    assert link['class'] == SAID[word][2]
    assert (SAID[word][3] or 'no rule, by its ') in link['rule'], link
    assert f'[{SAID[word][2]}: ' in link['because']
    if SAID[word][3] is None:
        shown = daemon.command('why', found['id']).stdout.decode()
        assert '[mailbox: no rule, by its code]' in shown, shown


def classify(daemon, *args, code=0, stdin=b''):
    done = daemon.command('classify', '--json', *args, stdin=stdin)
    assert done.returncode == code, done
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_new_reply_is_taught(stage):
    """Last: it changes the rules."""
    daemon, _ = stage
    mine = daemon.replies['files'][0]
    [before] = classify(daemon, '450 4.9.9 kwyjibo 17')
    assert before['class'] == 'mailbox' and before['why'] == 'its code'
    with open(mine, 'w', encoding='ascii') as file:
        file.write("\nrule kwyjibo {\n code = 450\n text = 'kwyjibo \\d+'\n class = full\n"
                   " action = {'slow 0.5', 'pause 5m after 3 in 10m'}\n example = '450 4.9.9 kwyjibo 17' }\n")
    [after] = classify(daemon, '450', '4.9.9', 'kwyjibo', '17')
    assert after == {'class': 'full', 'rule': 'kwyjibo', 'file': mine, 'line': 2,
                     'action': 'slow 0.5, pause 5m after 3 in 10m', 'reply': '450 4.9.9 kwyjibo 17'}
    reload(daemon)
    submit(daemon, 'new@a.test', ['again@x.test'], message())
    assert daemon.wait_event('TransientFailure', 'again@x.test')['bounce_classification'] == 'full'
    # Wrong ones: each is told, and the old set stays whole.
    with open(mine, 'a', encoding='ascii') as file:
        file.write("rule worse {\n text = '(' class = throttled\n action = 'pause 5m3s' }\n"
                   "rule worst { text = '(a+)+[bc]' class = full }\n")
    done = daemon.command('check')
    for said in (f'{mine}:9: text: rule "worse": missing closing parenthesis', f'{mine}:10: action: "5m3s" has two '
                 'units; write a whole number', f'{mine}:11: text: rule "worst": this expression needs more than'):
        assert said in done.stderr.decode(), done
    assert done.returncode == 78 and classify(daemon, '450 x', code=78) == []
    answer = reload(daemon, 422)
    assert len(answer['complaints']) == 1 and f'{mine}:10: action: ' in answer['complaints'][0]
    assert 'sluice check tells 3 mistakes' in answer['complaints'][0]
    submit(daemon, 'new@a.test', ['still@x.test'], message())
    assert daemon.wait_event('TransientFailure', 'still@x.test')['bounce_classification'] == 'full'


def test_classify_takes_what_others_print(stage, tmp_path):
    """Also from a file, and from standard input; after the rules were made right again."""
    daemon, _ = stage
    with open(daemon.replies['files'][0], 'w', encoding='ascii') as file:
        file.write('')
    reload(daemon)
    [event] = [e for e in daemon.results(address('listed'))]
    [found] = classify(daemon, event['response']['content'])
    assert found['class'] == 'blocked' and found['rule'] == 'spamhaus-zen' and found['scope'] == 'lane'
    lines = tmp_path / 'replies'
    lines.write_text('\n'.join(said[1] for said in SAID.values()))
    wanted = [said[3] for said in SAID.values()]
    assert [row.get('rule') for row in classify(daemon, '--file', str(lines))] == wanted
    assert [row.get('rule') for row in classify(daemon, stdin=lines.read_bytes())] == wanted
    [other] = classify(daemon, '--provider', 'yahoo', '--stage', 'mail', SAID['slow'][1])
    assert other['rule'] != 'google-rate-of-address'
    text = daemon.command('classify', SAID['listed'][1]).stdout.decode()
    assert text.startswith('class   blocked\nscope   lane\naction  by class\nrule    spamhaus-zen\nat      ')
    assert daemon.command('classify', '--stage', 'body', '421 x').returncode == 64
    assert daemon.command('classify', '--file', str(tmp_path / 'none')).returncode == 66


def test_what_no_rule_knew_is_listed(stage, tmp_path):
    """From the daemon's event log, the log's own file, and lines; what a rule knows is gone from it."""
    daemon, path = stage
    with open(daemon.replies['files'][0], 'w', encoding='ascii') as file:
        file.write('')
    unknown = {said[1]: said[2] for said in SAID.values() if said[3] is None and said[1][0] in '45'}
    rows = classify(daemon, '--unknown')
    found = {row['reply']: row for row in rows}
    for text, meaning in unknown.items():
        [row] = [row for line, row in found.items() if text in line]
        assert row['class'] == meaning and row['count'] >= 1 and row['last'] > 0 and row['why']
    assert not [line for line in found for said in SAID.values() if said[3] and said[1] in line]
    assert [row['count'] for row in rows] == sorted((row['count'] for row in rows), reverse=True)
    assert classify(daemon, '--unknown', '--since', '1d') == rows
    assert len(classify(daemon, '--unknown', '--limit', '1')) == 1
    assert classify(daemon, '--unknown', '--file', daemon.events_path) == rows
    def kinds(listed):
        return {(row['shape'], row['code'], row['status'], row['class'], row['count'], row['last']) for row in listed}
    until(lambda: kinds(classify(daemon, '--unknown', '--file', path)) == kinds(rows), lambda: (kinds(classify(daemon, '--unknown', '--file', path)), kinds(rows)))
    lines = tmp_path / 'lines'
    lines.write_text('550 zz 1 <a@x.test>\n550 zz 2 <b@x.test>\n250 ok\n\n{"type": "Expiration", "response": '
                     '{"code": 550, "content": "zz"}}\n{"type": "Bounce", "timestamp": 60, "response": '
                     '{"code": 550, "content": "zz 3 <c@x.test>"}}\n421 4.7.0 slow down\n{\n')
    [row] = classify(daemon, '--unknown', '--file', str(lines))
    assert (row['count'], row['last'], row['shape']) == (3, 60, 'zz * <*>'), row
    assert classify(daemon, '--unknown', '--file', '-', stdin=lines.read_bytes()) == [row]
    table = tmp_path / 'table.csv'  # columns in another order, a row over two lines, and what is no attempt or has no code
    table.write_text('dsnDiag,x,type,timeLogged\r\n"smtp;550 zz 4, ""a""",,b,1970-01-01 02:02:00+0100\n'
                     'smtp;550 zz 5,"two\nlines",t,1970-01-01 00:01:30+0000\nsmtp;550 zz 6,,d,\nsmtp;4.4.7 host x said: 550 zz 7,,b,\n'
                     '"smtp;550 zz 8, ""a""",,o,\n"smtp;550 zz 9')
    rows = classify(daemon, '--unknown', '--file', str(table))
    assert [(row['count'], row['shape'], row['last']) for row in sorted(rows, key=lambda row: row['count'])] == \
        [(1, 'zz *', 90), (2, 'zz *, "*"', 3720)], rows
    with open(daemon.replies['files'][0], 'w', encoding='ascii') as file:
        file.write('rule "zz" {\n code = 550\n text = "^zz "\n class = policy\n}\n')
    assert classify(daemon, '--unknown', '--file', str(lines)) == []
    text = daemon.command('classify', '--unknown', '--file', str(lines)).stdout.decode()
    assert text == 'no rule knew 0 of 4 replies, of 0 kinds\n'
    assert daemon.command('classify', '--unknown', '550', 'zz').returncode == 64
    assert daemon.command('classify', '--unknown', '--file', str(tmp_path / 'none')).returncode == 66
