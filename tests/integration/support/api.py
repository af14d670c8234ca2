"""The operators' interface as an HTTP client sees it, through the control socket."""
import http.client
import json
import os
import socket
import urllib.parse

from support.wait import PATIENCE


class Connection(http.client.HTTPConnection):
    """The daemon's control socket."""

    def __init__(self, daemon, patience=PATIENCE):
        super().__init__('localhost', timeout=patience)
        self.path = os.path.join(daemon.spool, 'control')

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.type = response.getheader('Content-Type')
        self.body = response.read()

    @property
    def object(self):
        return json.loads(self.body)

    @property
    def list(self):
        """The objects of a list that was not cut."""
        *items, end = [json.loads(line) for line in self.body.splitlines()]
        assert end['end'] is True and end['count'] == len(items)
        return items


def get(daemon, path, status=200):
    connection = Connection(daemon)
    try:
        connection.request('GET', path)
        answer = Answer(connection.getresponse())
    finally:
        connection.close()
    assert answer.status == status, (answer.status, answer.body[:500])
    return answer


def ask(daemon, path, **params):
    """(status, the JSON objects of all lines of the answer)"""
    query = '?' + urllib.parse.urlencode(params) if params else ''
    connection = Connection(daemon)
    try:
        connection.request('GET', path + query)
        answer = Answer(connection.getresponse())
    finally:
        connection.close()
    return answer.status, [json.loads(line) for line in answer.body.splitlines()]
