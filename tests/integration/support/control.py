"""HTTP over a daemon's control socket, without its commands."""
import http.client
import json
import os
import socket
import urllib.parse

from support.wait import PATIENCE


class ControlConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__('localhost', timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def get(daemon, path, **params):
    """(status, the JSON objects of the answer's lines)"""
    connection = ControlConnection(os.path.join(daemon.spool, 'control'))
    try:
        query = '?' + urllib.parse.urlencode(params) if params else ''
        connection.request('GET', path + query)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, [json.loads(line) for line in body.splitlines()]
    finally:
        connection.close()
