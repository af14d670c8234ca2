"""TLS on every connection, a connection for every message, with and without session resumption.

resumed: the receiver gives out session tickets, and Postfix keeps sessions as sluice does
(smtp_tls_session_cache_database). full: it gives out none, so every handshake is a full one."""
import measure
from flow import Setting, flow
from load import make_certificate

TITLE = 'TLS'
QUICK = {'pairs': 1, 'messages': 3000, 'messages_postfix': 500}
NO_TICKETS = '''\
openssl_conf = openssl_init
[openssl_init]
ssl_conf = ssl
[ssl]
system_default = no_tickets
[no_tickets]
Options = -SessionTicket
'''


def add_arguments(parser):
    measure.add_arguments(parser, ['sluice', 'postfix-nocache'], (20000, 4000))


def settings(args):
    config = args.folder / 'no_tickets.cnf'
    config.write_text(NO_TICKETS)
    sink = tuple(make_certificate(args.folder))
    transport = {'smtp_tls_security_level': '"encrypt"', 'smtp_connection_reuse_count_limit': 1}
    postfix = {'smtp_tls_security_level': 'encrypt', 'smtp_connection_cache_on_demand': 'no',
               'smtp_tls_session_cache_database': 'btree:${data_directory}/smtp_scache'}
    return [Setting.of(args, case=case, sink=sink, sink_environment=environment,
                       transport=transport, postfix=postfix)
            for case, environment in (('resumed', None), ('full', {'OPENSSL_CONF': str(config)}))]


def run(args):
    measure.check(args, without=('raw',))  # sluice-source speaks no TLS
    runs = measure.rounds(args, settings(args), measure.THROUGHPUT, flow)
    return measure.result(args, (TITLE, __doc__), measure.THROUGHPUT, runs)
