"""A name server with zones that a test can change, and with faults."""
import socketserver
import threading

from dnslib import AAAA, CNAME, DNSRecord, MX, QTYPE, RCODE, RR, SOA, TXT, A

from support.address import free_port_of_both


def text_of(value):
    """In strings of 255 bytes, which is all that one may have."""
    return TXT([value[at:at + 255] for at in range(0, len(value), 255)])


DATA = {'A': A, 'AAAA': AAAA, 'CNAME': CNAME, 'TXT': text_of}


class DnsServer:
    """zone: {name: [(type, value), ...] or a fault: 'NXDOMAIN', 'SERVFAIL', 'REFUSED', 'DROP',
    'GARBAGE'}; an MX value is (preference, host). A name that is not there does not exist."""

    def __init__(self, zone=None, ttl=60, address='127.0.0.1', port=None):
        self.zone = dict(zone or {})
        self.ttl = ttl
        self.questions = []
        self.unsigned = set()  # names whose answers do not claim to be validated, as the others do
        self.port = port or free_port_of_both()
        self.address = address
        server = self

        class Udp(socketserver.BaseRequestHandler):
            def handle(self):
                data, sock = self.request
                answer = server.answer(data, True)
                if answer is not None:
                    sock.sendto(answer, self.client_address)

        class Tcp(socketserver.BaseRequestHandler):
            def handle(self):
                file = self.request.makefile('rb')
                size = file.read(2)
                if len(size) == 2:
                    answer = server.answer(file.read(int.from_bytes(size, 'big')), False)
                    if answer is not None:
                        self.request.sendall(len(answer).to_bytes(2, 'big') + answer)

        class TcpServer(socketserver.ThreadingTCPServer):
            allow_reuse_address = True

        self.servers = [socketserver.UDPServer((self.address, self.port), Udp),
                        TcpServer((self.address, self.port), Tcp)]
        for one in self.servers:
            one.daemon_threads = True
            threading.Thread(target=one.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def name(self):
        return f'{self.address}:{self.port}'

    def close(self):
        for one in self.servers:
            one.shutdown()
            one.server_close()

    def asked(self, name, kind='MX'):
        return sum(1 for question in self.questions if question == (name, kind))

    def answer(self, data, is_udp):
        query = DNSRecord.parse(data)
        name = str(query.q.qname).rstrip('.').lower()
        kind = QTYPE[query.q.qtype]
        self.questions.append((name, kind))
        found = self.zone.get(name, 'NXDOMAIN')
        reply = query.reply()
        if name in self.unsigned:
            reply.header.ad = 0
        if isinstance(found, str):
            if found == 'DROP':
                return None
            if found == 'GARBAGE':
                return data[:2] + b'\x84\x00\x00\x01\x00\x05\x00\x00\x00\x00\xff\xff\xff'
            reply.header.rcode = getattr(RCODE, found)
            self.negative(reply)
            return reply.pack()
        self.fill(reply, name, kind, found, 0)
        if not reply.rr:
            self.negative(reply)
        packet = reply.pack()
        if is_udp and len(packet) > 512:
            short = query.reply()
            short.header.tc = 1
            return short.pack()
        return packet

    def fill(self, reply, name, kind, found, depth):
        for one_kind, value in found:
            if one_kind == kind:
                data = MX(value[1], value[0]) if kind == 'MX' else DATA[kind](value)
            elif one_kind == 'CNAME':
                data = CNAME(value)
            else:
                continue
            reply.add_answer(RR(name, getattr(QTYPE, one_kind), rdata=data, ttl=self.ttl))
            target = self.zone.get(value) if one_kind == 'CNAME' else None
            if isinstance(target, list) and depth < 20:
                self.fill(reply, value, kind, target, depth + 1)

    def negative(self, reply):
        reply.add_auth(RR('test', QTYPE.SOA, ttl=self.ttl,
                          rdata=SOA('ns.test', 'hostmaster.test', (1, 60, 60, 60, self.ttl))))

