"""Mail injected over HTTP: what arrives is what was given, 202 means stored, and mistakes are told with
their places. And whose mail it is, however it came in."""
import base64
import concurrent.futures
import email
import email.policy
import http.client
import json
import os
import subprocess
import time

import pytest

from support.certificate import make_certificate
from support.client import Client, submit
from support.api import Connection
from support.injection import post
from support.tools import PRELOAD
from support.wait import PATIENCE, until

FROM = 'sender@sender.test'
POLICY = email.policy.default


def simple(recipient='r@a.test', **members):
    return {'from': FROM, 'recipients': [recipient], 'text': 'hello\n', **members}


@pytest.fixture(scope='module')
def shared(module_place):
    receiver = module_place.receiver()
    return module_place.sluice(routes={'.test': ('smtp', receiver.nexthop)}), receiver


@pytest.fixture
def holding(place):
    """A daemon that takes mail and delivers none."""
    return place.sluice(transports={'smtp': {'hold': True}})


def parsed(body):
    return email.message_from_bytes(body.replace(b'\r\n', b'\n'), policy=POLICY)


def arrived(shared, recipient, count=1):
    """The messages to a recipient, as Python's library understands them."""
    daemon, receiver = shared
    daemon.wait_events('Delivery', recipient, count)
    return [parsed(m.body) for m in receiver.to(recipient)]


def stored(daemon, **members):
    """What `sluice message` says of an injected message."""
    [ident] = post(daemon, simple(**members)).expect(202)['ids']
    return daemon.query('message', ident)[0]


# --- content ---------------------------------------------------------------------------------


def test_smallest_message(shared):
    daemon, receiver = shared
    answer = post(daemon, simple('small@a.test')).expect(202)
    assert answer['accepted'] == 1 and len(answer['ids'][0]) == 16
    [got] = arrived(shared, 'small@a.test')
    [raw] = receiver.to('small@a.test')
    assert raw.sender == FROM
    assert raw.body.startswith(b'Received: by relay.test (sluice)\r\n\twith HTTP id '
                               + answer['ids'][0].encode() + b';')
    assert got['From'] == FROM and got['To'] == 'small@a.test'
    assert got['Message-ID'] == f'<{answer["ids"][0]}@relay.test>'
    assert abs(got['Date'].datetime.timestamp() - time.time()) < 60
    assert got.get_content() == 'hello\n'


def test_everything_comes_back(shared):
    daemon, _ = shared
    picture, table = os.urandom(5000), 'a;ü\n'.encode() * 300
    long_subject = 'Grüße aus Köln, 日本語, ' + 'und noch viel mehr Wörter ' * 20
    post(daemon, {
        'from': {'address': FROM, 'name': 'Jürgen "J" Müller, Chef'},
        'recipients': [{'address': 'all@a.test', 'name': 'Zoë'}],
        'headers': {'Subject': long_subject.strip(), 'X-A': ['one', 'zwei ü'],
                    'Reply-To': 'Ä Ö <reply@sender.test>, plain@sender.test',
                    'Cc': [{'address': 'cc@a.test', 'name': 'C, C'}, 'dd@a.test']},
        'text': 'Grüße\n\n.\nFrom here\n' + 'x' * 2000 + '\ntrailing \n',
        'html': '<p>Gr\u00fc\u00dfe <img src="cid:logo"></p>\r\n',
        'attachments': [
            {'filename': 'Prüfung 日本 ' + 'lang ' * 20 + '.csv', 'content_type': 'text/csv',
             'content': base64.encodebytes(table).decode()},
            {'filename': 'logo.png', 'content_type': 'image/png', 'content_id': 'logo',
             'content': base64.b64encode(picture).decode()}],
    }).expect(202)
    [got] = arrived(shared, 'all@a.test')
    assert got['Subject'] == long_subject.strip()
    assert got.get_all('X-A') == ['one', 'zwei ü']
    [author] = got['From'].addresses
    assert (author.display_name, author.addr_spec) == ('Jürgen "J" Müller, Chef', FROM)
    assert [(a.display_name, a.addr_spec) for a in got['To'].addresses] == [('Zoë', 'all@a.test')]
    assert [(a.display_name, a.addr_spec) for a in got['Reply-To'].addresses] == [
        ('Ä Ö', 'reply@sender.test'), ('', 'plain@sender.test')]
    assert [(a.display_name, a.addr_spec) for a in got['Cc'].addresses] == [
        ('C, C', 'cc@a.test'), ('', 'dd@a.test')]
    assert got.get_content_type() == 'multipart/mixed'
    body, attached = got.iter_parts()
    assert attached.get_filename() == 'Prüfung 日本 ' + 'lang ' * 20 + '.csv'
    assert attached.get_content_disposition() == 'attachment'
    assert attached.get_payload(decode=True) == table
    text, related = body.iter_parts()
    assert body.get_content_type() == 'multipart/alternative'
    assert text.get_content() == ('Grüße\n\n.\nFrom here\n' + 'x' * 2000 + '\ntrailing \n')
    html, logo = related.iter_parts()
    assert html.get_content() == '<p>Grüße <img src="cid:logo"></p>\n'
    assert logo['Content-ID'] == '<logo>' and logo.get_payload(decode=True) == picture
    assert logo.get_content_disposition() == 'inline'
    assert not got.defects and not any(part.defects for part in got.walk())


def test_no_line_is_too_long(shared):
    daemon, receiver = shared
    post(daemon, simple('lines@a.test', text='ü' * 5000, headers={
        'Subject': '😀' * 300, 'X-Words': 'word ' * 500,
        'To': ', '.join(f'"Name {i}, ü" <r{i}@a.test>' for i in range(100))})).expect(202)
    arrived(shared, 'lines@a.test')
    [raw] = receiver.to('lines@a.test')
    assert max(len(line) for line in raw.content.split(b'\r\n')) <= 78
    assert raw.content.isascii()


def test_finished_text(shared):
    daemon, receiver = shared
    raw = 'From: x@y.test\nSubject: raw\r\nMessage-ID: <kept@y.test>\n\n.\nGrüße\rend'
    post(daemon, {'from': FROM, 'recipients': ['raw@a.test'], 'raw': raw}).expect(202)
    arrived(shared, 'raw@a.test')
    [got] = receiver.to('raw@a.test')
    head, rest = got.content.split(b'\r\n', 1)
    assert head.startswith(b'Date: ')
    assert rest == ('From: x@y.test\r\nSubject: raw\r\nMessage-ID: <kept@y.test>\r\n\r\n'
                    '.\r\nGrüße\r\nend\r\n').encode()
    assert 'BODY=8BITMIME' in got.parameters


@pytest.mark.parametrize('end', ['\r\n', '\n', '\r', '\n\r', '\r\r\n'])
def test_no_second_message_in_one(shared, end):
    """A line of one dot ends DATA; whatever ends it here, what follows is content."""
    daemon, receiver = shared
    inner = f'{end}.{end}MAIL FROM:<evil@a.test>{end}RCPT TO:<evil@a.test>{end}DATA{end}x: y{end}{end}evil{end}.{end}'
    raw = f'Subject: outer\r\n\r\nfirst{inner}'
    name = f'smuggled{end.encode().hex()}'
    for number, members in enumerate(({'raw': raw}, {'raw_base64': base64.b64encode(raw.encode()).decode()},
                                      {'text': inner}, {'html': inner})):
        post(daemon, {'from': FROM, 'recipients': [f'{name}-{number}@a.test'], **members}).expect(202)
        arrived(shared, f'{name}-{number}@a.test')
        [got] = receiver.to(f'{name}-{number}@a.test')
        assert b'evil' in got.content and b'\r' not in got.content.replace(b'\r\n', b'')
        assert b'\n' not in got.content.replace(b'\r\n', b'')
    assert receiver.to('evil@a.test') == []
    for field in ('Subject', 'X-Any', 'From', 'List-Unsubscribe'):
        post(daemon, simple(f'{name}@a.test', headers={field: f'<a@b.test>{end}Bcc: evil@a.test'})).expect(422)
    post(daemon, simple(f'{name}@a.test', headers={f'X-A: b{end}Bcc': 'evil@a.test'})).expect(422)
    post(daemon, {**simple(f'{name}@a.test'), 'from': f'a@b.test>{end}RCPT TO:<evil@a.test'}).expect(422)
    post(daemon, simple(f'a{end}b@a.test')).expect(422)
    post(daemon, simple({'address': f'{name}@a.test', 'name': f'a{end}Bcc: evil@a.test'})).expect(422)


def test_message_as_body(shared):
    daemon, receiver = shared
    text = b'From: x@y.test\r\nDate: Mon, 1 Jan 2024 00:00:00 +0000\r\nMessage-ID: <a@y>\r\n\r\n\xff\r\n'
    query = f'?from={FROM}&to=%22a%2Cb%22%40a.test,%20body@a.test&tenant=acme'
    [ident] = post(daemon, text, query, 'message/rfc822').expect(202)['ids']
    assert daemon.wait_event('Delivery', 'body@a.test')['id'] == ident
    [got] = receiver.to('body@a.test')
    assert got.content == text and '"a,b"@a.test' in got.recipients
    assert daemon.of('Reception', id=ident)[0]['tenant'] == 'acme'
    answer = post(daemon, text, f'?from={FROM}', 'message/rfc822')
    assert answer.places == ['recipients']
    post(daemon, b'no header', f'?from={FROM}&to=a@a.test', 'message/rfc822').expect(422)
    post(daemon, simple(), '?to=a@a.test').expect(400)
    post(daemon, simple(), '?nonsense=1').expect(400)


def test_large_message_and_many_recipients(shared):
    daemon, receiver = shared
    data = os.urandom(1 << 20)
    recipients = [f'many{i}@a.test' for i in range(2500)]
    answer = post(daemon, {'from': FROM, 'recipients': recipients, 'text': 'x',
                           'attachments': [{'content': base64.b64encode(data).decode()}]})
    [ident] = answer.expect(202)['ids']
    daemon.wait_events('Delivery', count=2500, id=ident)
    assert sorted(r for m in receiver.messages for r in m.recipients if r.startswith('many')) == \
        sorted(recipients)
    [message, *_] = receiver.to('many2499@a.test')
    got = parsed(message.body)
    assert list(got.iter_attachments())[0].get_payload(decode=True) == data
    assert got['To'] == 'undisclosed-recipients:;'


@pytest.mark.parametrize('size', [32768, 65504, 65505, 131008, 131009])
def test_sizes_around_chunks(shared, size):
    daemon, receiver = shared
    recipient = f'size{size}@a.test'
    head = f'From: {FROM}\r\nDate: x\r\nMessage-ID: <x@y>\r\n\r\n'
    trace = len('Received: by relay.test (sluice)\r\n\twith HTTP id 0123456789abcdef;\r\n'
                '\tMon, 01 Jan 2024 00:00:00 +0000\r\n')
    raw = head + 'x' * (size - len(head) - trace - 2) + '\r\n'
    post(daemon, {'from': FROM, 'recipients': [recipient], 'raw': raw}).expect(202)
    arrived(shared, recipient)
    [got] = receiver.to(recipient)
    assert len(got.body) == size and got.content == raw.encode()


def test_utf8_addresses(shared):
    daemon, receiver = shared
    post(daemon, simple('grüße@a.test', headers={'Subject': 'ü'})).expect(202)
    daemon.wait_event('Delivery', 'grüße@a.test')
    [got] = receiver.to('grüße@a.test')
    assert 'SMTPUTF8' in got.parameters


# --- batches ---------------------------------------------------------------------------------


def test_batch(shared):
    daemon, receiver = shared
    answer = post(daemon, {
        'defaults': {'from': FROM, 'text': 'default\n', 'tenant': 'acme', 'campaign': 'c1',
                     'headers': {'Subject': 'default', 'X-Batch': 'yes'}},
        'messages': [{'recipients': [f'batch{i}@a.test'],
                      **({'text': 'own\n', 'headers': {'subject': 'own'}, 'campaign': 'c2'}
                         if i == 7 else {})} for i in range(100)]}).expect(202)
    assert answer['accepted'] == 100 and len(set(answer['ids'])) == 100
    for i, subject, text, campaign in ((6, 'default', 'default\n', 'c1'), (7, 'own', 'own\n', 'c2')):
        [got] = arrived(shared, f'batch{i}@a.test')
        assert (got['Subject'], got['X-Batch'], got.get_content()) == (subject, 'yes', text)
        delivery = daemon.wait_event('Delivery', f'batch{i}@a.test')
        assert delivery['id'] == answer['ids'][i]
        assert (delivery['tenant'], delivery['campaign']) == ('acme', campaign)


def test_batch_is_checked_as_a_whole(holding):
    answer = post(holding, {'messages': [
        simple(), {**simple(), 'recipients': ['a@a.test', {'address': 'b b'}]},
        {'from': FROM}, 7]})
    assert answer.places == ['messages[1].recipients[1].address', 'messages[2].recipients',
                             'messages[2].text', 'messages[3]']
    assert answer.object['where'] == 'messages[1].recipients[1].address'
    assert answer.object['code'] == 'wrong'
    assert answer.object['error'].startswith('messages[1].recipients[1].address: ')
    answer = post(holding, {'messages': [{'from': ''}] * 1000})
    assert len(answer.places) == 20 and answer.object['mistake_count'] >= 20
    assert post(holding, {'messages': [simple()] * 1001}).places == ['messages']
    assert post(holding, {'messages': []}).places == ['messages']
    assert post(holding, {'messages': [simple()], 'text': 'x'}).places == ['text']
    assert holding.totals()['messages'] == 0


def test_what_is_no_request(holding):
    post(holding, b'{"from"').expect(400)
    post(holding, b'').expect(400)
    post(holding, b'[]').expect(400)
    post(holding, b'x', content_type='text/plain').expect(415)
    assert post(holding, {}).places == ['from', 'recipients', 'headers.From', 'text']


def test_headers_cannot_be_injected(holding):
    for value in ('a\r\nBcc: x@y.test', 'a\nb', 'a\rb', 'a\x0bb'):
        assert post(holding, simple(headers={'Subject': value})).places == ['headers.Subject']
        assert post(holding, simple(headers={'To': value})).places == ['headers.To']
        assert post(holding, simple(attachments=[{'content': '', 'filename': value}])).places == [
            'attachments[0].filename']
        assert post(holding, simple(recipients=[{'address': 'a@a.test', 'name': value}])).places == [
            'recipients[0].name']
        assert post(holding, simple(**{'from': f'a@b.test{value}'},
                                    headers={'From': 'a@b.test'})).places == ['from']
    assert holding.totals()['messages'] == 0


def test_no_route(shared):
    daemon, _ = shared
    answer = post(daemon, {**simple(), 'recipients': ['a@a.test', 'b@elsewhere.example']})
    assert answer.places == ['recipients[1]']


# --- envelope --------------------------------------------------------------------------------


def test_schedule_is_stored(holding):
    later = int(time.time()) + 3600
    [ident] = post(holding, simple(not_before=later, expires_in='2h', tenant='acme',
                                   campaign='c')).expect(202)['ids']
    reception = holding.wait_event('Reception', id=ident)
    assert reception['tenant'] == 'acme' and reception['campaign'] == 'c'
    assert reception['reception_protocol'] == 'HTTP' and reception['source_transport'] == 'http'
    message = holding.query('message', ident)[0]
    assert message['expires'] == later + 7200
    assert holding.query('messages')[0]['id'] == ident
    holding.kill()
    holding.start()
    assert holding.query('message', ident)[0]['expires'] == later + 7200


def test_scheduled_mail_waits(shared):
    daemon, receiver = shared
    begin = int(time.time()) + 3
    post(daemon, simple('later@a.test', not_before=begin)).expect(202)
    daemon.wait_event('Delivery', 'later@a.test')
    assert time.time() >= begin
    [got] = receiver.to('later@a.test')
    assert got.sender == FROM


def test_lifetime_of_scheduled_mail_counts_from_its_time(holding):
    later = int(time.time()) + 86400 * 30
    assert stored(holding, not_before=later)['expires'] == later + 5 * 86400


def test_token_is_the_tenant(place):
    folder = place.subfolder('tokens')
    with open(f'{folder}/tokens', 'w', encoding='utf-8') as tokens:
        tokens.write('shop:0123456789abcdef0123456789abcdef\n')
    os.chmod(f'{folder}/tokens', 0o600)
    daemon = place.sluice(transports={'smtp': {'hold': True}},
                          http={'tokens_file': f'{folder}/tokens', 'request_size_limit': '10K'})

    def over_tcp(body, **headers):
        connection = http.client.HTTPConnection('127.0.0.1', daemon.http_port, timeout=PATIENCE)
        try:
            return post(daemon, body, connection=connection, headers=headers)
        finally:
            connection.close()
    over_tcp(simple()).expect(401)
    over_tcp(simple(), Authorization='Bearer 0123456789abcdef0123456789abcdee').expect(401)
    good = {'Authorization': 'Bearer 0123456789abcdef0123456789abcdef'}
    for members, tenant in (({}, 'shop'), ({'tenant': 'acme'}, 'acme')):
        [ident] = over_tcp(simple(**members), **good).expect(202)['ids']
        event = daemon.wait_event('Reception', id=ident)
        assert event['tenant'] == tenant
        assert event['peer_address'] == {'name': 'shop', 'addr': '127.0.0.1'}
    over_tcp(simple(text='x' * 20000), **good).expect(413)


# --- durability, limits ------------------------------------------------------------------------


def test_202_survives_a_kill(holding):
    """Killed at the moment of the last 202: every id that was told is there."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        def run(number):
            connection = Connection(holding)
            ids = []
            for i in range(10):
                batch = {'messages': [simple(f'k{number}-{i}-{k}@a.test') for k in range(5)]}
                ids += post(holding, batch, connection=connection).expect(202)['ids']
            return ids
        ids = sum(pool.map(run, range(8)), [])
    large = simple('large@a.test', text='x' * 300000)
    ids += post(holding, large).expect(202)['ids']
    holding.kill()
    holding.start()
    assert {m['id'] for m in holding.query('messages')} == set(ids)
    assert len(ids) == 401


def test_limits_of_size(place):
    daemon = place.sluice(options={'inject_size_limit': '10K'}, transports={'smtp': {'hold': True}})
    assert post(daemon, simple(text='x' * 11000)).places == ['text']
    answer = post(daemon, simple(text='x', attachments=[
        {'content': base64.b64encode(b'x' * 9000).decode()}]))
    assert answer.places == ['attachments']
    post(daemon, simple(text='x' * 9000)).expect(202)


def test_batch_that_is_too_large(holding):
    """A few bytes of request must not become a memory full of messages."""
    body = {'defaults': {'text': 'x' * 1000000}, 'messages': [
        {'from': FROM, 'recipients': ['a@a.test']}] * 100}
    answer = post(holding, body)
    assert answer.expect(413)['code'] == 'large'
    assert holding.totals()['messages'] == 0


def test_no_mail_below_the_reserve(place):
    daemon = place.sluice(options={'map_size': '64T', 'spool_reserve': '60T'},
                          transports={'smtp': {'hold': True}})
    daemon.wait_log('below spool_reserve')
    answer = post(daemon, simple())
    assert answer.expect(503)['code'] == 'unavailable' and int(answer.retry_after) > 0
    done = daemon.command('inject', stdin=json.dumps(simple()).encode())
    assert done.returncode == 69 and b'storage' in done.stderr


@pytest.mark.skipif(not os.path.exists(PRELOAD), reason='no fault library here')
def test_storage_error_is_no_202(place):
    daemon = place.sluice(start=False, transports={'smtp': {'hold': True}})
    switch = os.path.join(daemon.folder, 'switch')
    daemon.env = {'LD_PRELOAD': PRELOAD, 'FAULT_FOLDER': daemon.spool, 'FAULT_SWITCH': switch,
                  'FAULT_CALLS': 'write,sync', 'FAULT_ERRNO': 'EIO', 'FAULT_AT': '1', 'FAULT_TIMES': '0'}
    daemon.start()
    [first] = post(daemon, simple()).expect(202)['ids']
    with open(switch, 'w', encoding='ascii'):
        pass
    answer = post(daemon, {'messages': [simple(), simple(text='y' * 200000)]})
    assert answer.expect(503)['code'] == 'unavailable' and int(answer.retry_after) > 0
    assert post(daemon, simple()).status == 503
    os.remove(switch)
    until(lambda: post(daemon, simple()).status == 202, 'the spool works again')
    assert first in {m['id'] for m in daemon.query('messages')}


@pytest.mark.skipif(not os.path.exists(PRELOAD), reason='no fault library here')
@pytest.mark.parametrize('at', range(1, 5))
def test_each_message_of_a_batch_has_its_result(place, at):
    """A batch of several commits, one of which fails: what is told to be stored is, and no more."""
    daemon = place.sluice(start=False, transports={'smtp': {'hold': True}})
    switch = os.path.join(daemon.folder, 'switch')
    daemon.env = {'LD_PRELOAD': PRELOAD, 'FAULT_FOLDER': daemon.spool, 'FAULT_SWITCH': switch,
                  'FAULT_CALLS': 'sync', 'FAULT_ERRNO': 'EIO', 'FAULT_AT': str(at)}
    daemon.start()
    with open(switch, 'w', encoding='ascii'):
        pass
    answer = post(daemon, {'defaults': {'from': FROM, 'text': ('x' * 70 + '\n') * 700},
                           'messages': [{'recipients': [f'm{i}@a.test']} for i in range(400)]})
    os.remove(switch)
    assert answer.status in (202, 207, 503), answer
    ids = answer.object.get('ids', [])
    if answer.status == 207:
        results = answer.object['results']
        assert len(results) == 400 and {'error'} <= set().union(*results)
        assert [r['id'] for r in results if 'id' in r] == ids
    assert answer.object.get('accepted', 0) == len(ids)
    until(lambda: post(daemon, simple()).status == 202, 'the spool works')
    daemon.stop()
    daemon.start()
    kept = {m['id'] for m in daemon.query('messages', '--limit', '10000')
            if m['size'] > 40000}
    assert kept == set(ids)


def test_intake_memory_is_observed(place):
    """While one request's messages wait for their commits, others are put off, and none is lost."""
    daemon = place.sluice(options={'intake_memory': '1M'}, transports={'smtp': {'hold': True}})
    body = {'defaults': {'from': FROM, 'text': 'x' * 30000},
            'messages': [{'recipients': [f'm{i}@a.test']} for i in range(100)]}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: post(daemon, body), range(24)))
    taken = [a for a in answers if a.status == 202]
    busy = [a for a in answers if a.status == 429]
    assert taken and len(taken) + len(busy) == len(answers)
    assert all(a.object['code'] == 'busy' and int(a.retry_after) > 0 for a in busy)
    until(lambda: daemon.totals()['messages'] == 100 * len(taken), 'what was taken, and no more')


def test_stop_answers_what_it_took(place):
    daemon = place.sluice(transports={'smtp': {'hold': True}})
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        def run(number):
            ids = []
            try:
                for i in range(1000):
                    answer = post(daemon, simple(f's{number}-{i}@a.test'))
                    if answer.status != 202:
                        assert answer.status == 503
                        break
                    ids += answer.object['ids']
            except (OSError, http.client.HTTPException):
                pass  # the daemon ended
            return ids
        running = [pool.submit(run, n) for n in range(4)]
        daemon.wait_events('Reception', count=50)
        assert daemon.stop() == 0
        ids = sum((r.result() for r in running), [])
    daemon.start()
    assert set(ids) <= {m['id'] for m in daemon.query('messages', '--limit', '10000')}


# --- the command -------------------------------------------------------------------------------


def test_command(holding):
    done = holding.command('inject', '--tenant', 'acme', '--campaign', 'c9', '--expires', '2h',
                           stdin=json.dumps({'messages': [simple(), simple(tenant='x')]}).encode())
    assert done.returncode == 0, done.stderr
    ids = done.stdout.decode().split()
    assert len(ids) == 2
    for ident in ids:
        reception = holding.wait_event('Reception', id=ident)
        assert (reception['tenant'], reception['campaign']) == ('acme', 'c9')
    path = os.path.join(holding.folder, 'message.json')
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(simple(), file)
    later = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 3600))
    done = holding.command('inject', '--at', later, path)
    assert done.returncode == 0, done.stderr
    done = holding.command('inject', '--at', 'tomorrow', path)
    assert done.returncode == 64 and b'not_before: is no time' in done.stderr
    done = holding.command('inject', path, '--json')
    assert done.returncode == 0 and json.loads(done.stdout)['accepted'] == 1
    done = holding.command('inject', '--from', FROM, '--to', 'a@a.test', stdin=b'Subject: x\n\nx\n')
    assert done.returncode == 0, done.stderr


def test_command_that_fails(holding):
    done = holding.command('inject', stdin=json.dumps({'from': 'x', 'text': ''}).encode())
    assert done.returncode == 64 and done.stdout == b''
    assert b'sluice inject: from: is no mail address\n' in done.stderr
    assert b'sluice inject: recipients: ' in done.stderr
    assert holding.command('inject', stdin=b'{').returncode == 64
    assert holding.command('inject', '/does/not/exist').returncode == 66
    holding.stop()
    assert holding.command('inject', stdin=json.dumps(simple()).encode()).returncode == 69


# --- whose mail it is, over SMTP ----------------------------------------------------------------

BODY = b'Subject: x\r\nX-Tenant: %s\r\nX-Campaign:\r\n  spring\r\n\r\nbody\r\n'


def reception(daemon, recipient, body):
    submit(daemon, FROM, [recipient], body)
    return daemon.wait_event('Reception', recipient)


def test_nobodys_mail(holding):
    event = reception(holding, 'a@a.test', BODY % b'acme')
    assert 'tenant' not in event and 'campaign' not in event and 'source_transport' not in event


def test_tenant_of_a_listener(place):
    daemon = place.sluice(listener={'tenant': 'house', 'tenant_header': 'X-Tenant',
                                    'campaign_header': 'x-campaign'},
                          transports={'smtp': {'hold': True}})
    event = reception(daemon, 'a@a.test', BODY % b'acme')
    assert (event['tenant'], event['campaign']) == ('acme', 'spring')
    event = reception(daemon, 'b@a.test', b'Subject: x\r\n\r\nX-Tenant: body\r\n')
    assert event['tenant'] == 'house' and 'campaign' not in event
    event = reception(daemon, 'c@a.test', BODY % b'two words')
    assert (event['tenant'], event['campaign']) == ('house', 'spring')
    assert daemon.totals()['odd_labels'] == 1
    event = reception(daemon, 'd@a.test', BODY % b'acme' + b'x' * 200000 + b'\r\n')
    assert (event['tenant'], event['campaign']) == ('acme', 'spring')


def test_tenant_of_a_user(place):
    folder = place.subfolder('users')
    make_certificate(folder, 'relay.test')
    crypted = subprocess.run(['openssl', 'passwd', '-6', 'secret'], check=True, text=True,
                             capture_output=True).stdout.strip()
    with open(f'{folder}/users', 'w', encoding='utf-8') as users:
        users.write(f'alice:{crypted}\n')
    daemon = place.sluice(listener={'relay_from': ['192.0.2.0/24'], 'users': f'{folder}/users',
                                    'tls_certificate': f'{folder}/cert', 'tls_key': f'{folder}/key',
                                    'tenant_header': 'X-Tenant'},
                          transports={'smtp': {'hold': True}})
    with Client(daemon) as client:
        client.ehlo()
        client.starttls()
        client.ehlo()
        client.say('AUTH PLAIN ' + base64.b64encode(b'\0alice\0secret').decode(), 235)
        for recipient, body in (('a@a.test', b'Subject: x\r\n\r\n'), ('b@a.test', BODY % b'acme')):
            client.mail(FROM, [recipient])
            client.data(body)
    assert daemon.wait_event('Reception', 'a@a.test')['tenant'] == 'alice'
    assert daemon.wait_event('Reception', 'b@a.test')['tenant'] == 'acme'
