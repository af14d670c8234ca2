"""HTTP byte by byte: requests that no library would send, and what comes back."""
import contextlib
import json
import socket

from support.wait import PATIENCE


def head(path, *headers, method='GET', version='1.1', host='127.0.0.1'):
    lines = [f'{method} {path} HTTP/{version}', f'Host: {host}', *headers, '', '']
    return '\r\n'.join(lines).encode('latin-1')


def post(path, body, *headers, kind='application/json', method='POST'):
    """body: bytes, or what JSON is made of"""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head(path, f'Content-Type: {kind}', f'Content-Length: {len(data)}', *headers,
                method=method) + data


def chunked(path, *pieces, headers=(), end=b'0\r\n\r\n'):
    """pieces: bytes as they stand behind the head"""
    return head(path, 'Content-Type: application/json', 'Transfer-Encoding: chunked', *headers,
                method='POST') + b''.join(pieces) + end


class Answer:
    """status 0: it closed without a word."""

    def __init__(self, data):
        self.data = data
        self.status = 0
        if data:
            start, _, self.body = data.partition(b'\r\n\r\n')
            assert start.startswith(b'HTTP/1.'), data[:200]
            self.status = int(start.split(b' ', 2)[1])
            self.is_json = b'\r\ncontent-type: application/json' in start.lower()

    def __repr__(self):
        return repr(self.data[:600])

    @property
    def object(self):
        return json.loads(self.body)


def take_answer(data):
    """(the first answer of these bytes or None while it is not complete, what follows)"""
    start, separator, rest = data.partition(b'\r\n\r\n')
    if not separator:
        return None, data
    if b' 100 ' in start.split(b'\r\n')[0]:
        return take_answer(rest)
    length = 0
    for line in start.lower().split(b'\r\n'):
        if line.startswith(b'content-length:'):
            length = int(line.split(b':')[1])
    if len(rest) < length:
        return None, data
    end = len(start) + 4 + length
    return Answer(data[:end]), data[end:]


def read_answers(sock, count=1):
    """So many, or fewer when it closes before."""
    found, data = [], b''
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while len(found) < count:
            answer, data = take_answer(data)
            if answer is not None:
                found.append(answer)
                continue
            piece = sock.recv(1 << 16)
            if not piece:
                break
            data += piece
    return found


def open_door(daemon):
    return socket.create_connection((daemon.address, daemon.http_port), PATIENCE)


def say(daemon, data, count=1):
    """What the TCP door answers; one with status 0 when it is nothing."""
    with open_door(daemon) as sock:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            sock.sendall(data)
        return read_answers(sock, count) or [Answer(b'')]
