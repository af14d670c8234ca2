"""A name server whose answers are as large as they may be: each name has 100 MX of its own, with names
of 250 bytes, and each of these 100 addresses where nothing listens."""
import socket
import struct
import threading

from support.address import free_port_of_both

MX, A = 15, 1
RECORDS = 100
LABELS = b''.join(b'\x3c' + letter * 60 for letter in (b'm', b'n', b'o')) + b'\x35' + b'p' * 53


class LargeZone:
    def __init__(self):
        self.port = free_port_of_both()
        self.name = f'127.0.0.1:{self.port}'
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.udp.bind(('127.0.0.1', self.port))
        self.tcp = socket.create_server(('127.0.0.1', self.port))
        self.addresses = b''.join(b'\xc0\x0c' + struct.pack('>HHIHBBBB', A, 1, 3600, 4, 127, 1, 0, n + 1)
                                  for n in range(RECORDS))
        for run in (self.serve_udp, self.serve_tcp):
            threading.Thread(target=run, daemon=True).start()

    def close(self):
        self.udp.close()
        self.tcp.close()

    def answer(self, query, is_tcp):
        end = query.index(b'\0', 12) + 5
        kind, = struct.unpack_from('>H', query, end - 4)
        flags, count, records = 0x8580, 0, b''
        if kind == MX and not is_tcp:
            flags |= 0x0200  # truncated
        elif kind == MX:
            first = query[13:13 + query[12]]
            count, records = RECORDS, b''.join(
                b'\xc0\x0c' + struct.pack('>HHIHH', MX, 1, 3600, 9 + len(first) + len(LABELS), 10) +
                bytes([len(first) + 5]) + b'h%04d' % n + first + LABELS + b'\0' for n in range(RECORDS))
        elif kind == A:
            count, records = RECORDS, self.addresses
        head = query[:2] + struct.pack('>HHHHH', flags, 1, count, 0, 0)
        return head + query[12:end] + records

    def serve_udp(self):
        try:
            while True:
                query, peer = self.udp.recvfrom(4096)
                self.udp.sendto(self.answer(query, False), peer)
        except OSError:
            pass

    def serve_tcp(self):
        try:
            while True:
                connection, _ = self.tcp.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()
        except OSError:
            pass

    def serve(self, connection):
        with connection, connection.makefile('rb') as file:
            while len(size := file.read(2)) == 2:
                answer = self.answer(file.read(int.from_bytes(size, 'big')), True)
                connection.sendall(struct.pack('>H', len(answer)) + answer)
