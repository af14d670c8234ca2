"""Loopback addresses and ports that nobody else uses."""
import itertools
import os
import socket
import threading

_numbers = itertools.count(1)
_given = set()
_lock = threading.Lock()
_net = 64 + os.getpid() % 128


def fresh_address():
    """An address of 127.0.0.0/8 for one peer of this run."""
    number = next(_numbers)
    assert number < 60000
    return f'127.{_net}.{1 + number // 250}.{1 + number % 250}'


def free_port(address='127.0.0.1'):
    """Never the same twice: its taker binds it later."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
            port = probe.getsockname()[1]
        with _lock:
            if port not in _given:
                _given.add(port)
                return port


def free_port_of_both():
    """A port that is free for TCP and UDP alike (DNS)."""
    while True:
        port = free_port()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(('127.0.0.1', port))
            except OSError:
                continue
            return port
