"""Loopback addresses and ports that nobody else uses, of this process and of other test runs."""
import itertools
import os
import socket
import threading

# Below the kernel's ephemeral ports: no connection of anybody takes one of these as its source.
PORTS_BEGIN, PORTS_OF_CLAIM, PORTS_CLAIMS = 10240, 256, 86
NETS_BEGIN, NETS = 64, 128

_numbers = itertools.count(1)
_lock = threading.Lock()
_claims = []


def _claim(what, count):
    """A number below `count` that no other process of this network namespace has, until the end of
    this process: the name of a socket is free again when its process is gone, whatever ended it."""
    for number in range(count):
        candidate = (os.getpid() + number) % count
        owner = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            owner.bind(f'\0sluice-test-{what}-{candidate}')
        except OSError:
            owner.close()
            continue
        _claims.append(owner)
        return candidate
    raise AssertionError(f'all {count} {what} of this machine are in use')


_net = NETS_BEGIN + _claim('net', NETS)


def fresh_address():
    """An address of 127.0.0.0/8 for one peer of this run."""
    number = next(_numbers)
    assert number < 60000
    return f'127.{_net}.{1 + number // 250}.{1 + number % 250}'


def _ports():
    while True:
        first = PORTS_BEGIN + PORTS_OF_CLAIM * _claim('ports', PORTS_CLAIMS)
        yield from range(first, first + PORTS_OF_CLAIM)


_own_ports = _ports()


def free_port(address='127.0.0.1'):
    """Never the same twice: its taker binds it later."""
    while True:
        with _lock:
            port = next(_own_ports)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
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
