"""Doors of the operators' interface that get other certificates, limits and tokens while somebody
stands in them: their connections end by what they began with, and the socket never closes."""
import http.client
import json
import os
import ssl
import threading

from support.certificate import make_certificate
from support.reloading import options_of, reload
from support.wait import PATIENCE, until


def open_door(daemon, is_tls=False):
    if not is_tls:
        return http.client.HTTPConnection('127.0.0.1', daemon.http_port, timeout=PATIENCE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection('127.0.0.1', daemon.http_port, timeout=PATIENCE, context=context)


def look(door, path='/v1/status', **headers):
    door.request('GET', path, headers=headers)
    response = door.getresponse()
    body = response.read()
    return response, body


def certificate_at(daemon):
    return ssl.get_server_certificate(('127.0.0.1', daemon.http_port), timeout=PATIENCE)


def test_certificates_and_limits(place):
    folder = place.subfolder('tls')
    cert, key = make_certificate(folder, 'one.test')
    daemon = place.sluice(http={'tls_certificate': cert, 'tls_key': key})
    first = certificate_at(daemon)
    old, idle = open_door(daemon, True), open_door(daemon, True)
    assert look(old)[0].status == look(idle)[0].status == 200
    # The files alone have changed.
    make_certificate(folder, 'two.test')
    assert options_of(reload(daemon)) == []
    second = certificate_at(daemon)
    assert first != second
    # Who was there gets one more answer, and then a new connection.
    response, body = look(old)
    assert response.status == 200 and response.getheader('Connection') == 'close' and json.loads(body)
    response, _ = look(old)  # the client connects again by itself
    assert response.status == 200 and response.getheader('Connection') != 'close'
    # A mistake changes nothing.
    with open(key, 'w', encoding='ascii') as file:
        file.write('-----BEGIN PRIVATE KEY-----\n')
    [text] = reload(daemon, 422)['complaints']
    assert 'is the certificate one of this key?' in text
    os.rename(key, key + '.away')
    [text] = reload(daemon, 422)['complaints']
    assert 'tls_key' in text and 'No such file' in text
    assert certificate_at(daemon) == second and look(old)[0].status == 200
    # Without TLS, with another limit.
    daemon.http = {'request_size_limit': '2K', 'connection_limit': 2, 'timeout': '120s'}
    assert options_of(reload(daemon)) == []
    plain = open_door(daemon)
    plain.request('POST', '/v1/inject', b'x' * 3000, {'Content-Type': 'application/json'})
    response = plain.getresponse()
    assert response.status == 413, response.read()
    response.read()
    assert look(old)[0].status == 200  # by what it began with
    idle.close()
    old.close()
    # Nothing changes: the connection stays.
    assert look(plain)[0].status == 200
    reload(daemon)
    response, _ = look(plain)
    assert response.status == 200 and response.getheader('Connection') != 'close'
    assert daemon.stop() == 0


def test_tokens_of_a_door_come_and_go(place):
    path = os.path.join(place.folder, 'tokens')
    with open(path, 'w', encoding='ascii', opener=lambda p, f: os.open(p, f, 0o600)) as tokens:
        tokens.write('me:0123456789abcdef0123\n')
    daemon = place.sluice(http={})
    door = open_door(daemon)
    assert look(door)[0].status == 200
    daemon.http = {'tokens_file': path}
    assert options_of(reload(daemon)) == []
    assert look(door)[0].status == 401
    assert look(door, Authorization='Bearer 0123456789abcdef0123')[0].status == 200
    # The section is gone, its socket stays: so does what it asks for.
    http_port, daemon.http = daemon.http_port, None
    assert options_of(reload(daemon)) == [f'http {daemon.address}:{http_port}']
    assert options_of(reload(daemon)) == [f'http {daemon.address}:{http_port}']
    assert look(door)[0].status == 401
    daemon.http = {}
    assert options_of(reload(daemon)) == []
    assert look(door)[0].status == 200
    assert daemon.stop() == 0


def test_many_reloads_under_load(place):
    """No request fails while the door changes under it."""
    folder = place.subfolder('tls')
    cert, key = make_certificate(folder, 'one.test')
    daemon = place.sluice(http={'tls_certificate': cert, 'tls_key': key})
    is_over = threading.Event()
    counts, failures = [0, 0], []

    def ask(number):
        door = open_door(daemon, True)
        while not is_over.is_set():
            try:
                response, body = look(door, '/v1/transports')
                assert response.status == 200 and body
                counts[number] += 1
            except http.client.RemoteDisconnected as error:
                # An idle connection may be closed as the request goes out, not one that is new.
                failures.append(error)
                door = open_door(daemon, True)
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for n in range(12):
        daemon.http['connection_limit'] = 100 + n
        reload(daemon)
        before = list(counts)
        until(lambda: all(now > was for now, was in zip(counts, before)), 'answers to both')
    is_over.set()
    for thread in threads:
        thread.join()
    assert failures == []
    descriptors = len(os.listdir(f'/proc/{daemon.process.pid}/fd'))
    for n in range(12):
        daemon.http['connection_limit'] = 200 + n
        reload(daemon)
    until(lambda: len(os.listdir(f'/proc/{daemon.process.pid}/fd')) <= descriptors + 6, 'doors that ended')
    assert daemon.stop() == 0
