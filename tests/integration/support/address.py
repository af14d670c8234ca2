"""Loopback addresses and ports that nobody else uses."""
import itertools
import os
import socket

_numbers = itertools.count(1)
_net = 64 + os.getpid() % 128


def fresh_address():
    """An address of 127.0.0.0/8 for one peer of this run."""
    number = next(_numbers)
    assert number < 60000
    return f'127.{_net}.{1 + number // 250}.{1 + number % 250}'


def free_port(address='127.0.0.1', kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


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
