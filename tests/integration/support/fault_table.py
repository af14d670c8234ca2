"""The matrix of dialogue and fault: what a server does at which point, as a script of
support/peer.py, and what must come of it.

Outcomes: OK delivered; BNC refused for good; NEXT the next server is tried, and deferred when none
is left; AMB may have been taken: deferred, no other server in this attempt, marked in the log. A
"+" behind it: the connection stays in use; without it nothing more may be sent on it.

What reliability-security 3.2 calls DEF is NEXT here: a soft failure at a server that is not the
last one leaves its recipients to the next (scheduler-semantics 3.2), as our credentials at one
server say nothing about those at another, or about the mail. RSET and "first command on reuse" are two rows: RSET follows a
transaction that failed, and the first command on a reused connection is MAIL, whose refusal is
about the message. QUIT is not waited for, so nothing that happens there shows.
"""

OUTCOMES = '''
          silent reset finish 4yz   5yz  421  garbage class drip line endless mixed extra unclean
connect   NEXT   NEXT  -      -     -    -    -       -     -    -    -       -     -     -
banner    NEXT   NEXT  NEXT   NEXT  NEXT NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  NEXT  OK+
EHLO      NEXT   NEXT  NEXT   OK+   OK+  NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  NEXT  OK+
HELO      NEXT   NEXT  NEXT   NEXT  NEXT NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  NEXT  OK+
STARTTLS  NEXT   NEXT  NEXT   OK+   OK+  NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  NEXT  NEXT
STARTTLS! NEXT   NEXT  NEXT   NEXT  NEXT NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  NEXT  NEXT
TLS       NEXT   OK    OK     -     -    -    OK      -     NEXT OK   -       -     -     -
TLS!      NEXT   NEXT  NEXT   -     -    -    NEXT    -     NEXT NEXT -       -     -     -
EHLO!     NEXT   NEXT  NEXT   NEXT  OK+  NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  NEXT  OK+
AUTH      NEXT   NEXT  NEXT   NEXT  NEXT NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  NEXT  OK+
MAIL      NEXT   NEXT  NEXT   NEXT+ BNC+ NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  NEXT  BNC+
RCPT      NEXT   NEXT  NEXT   NEXT+ BNC+ NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  NEXT  BNC+
DATA      NEXT   NEXT  NEXT   NEXT+ BNC+ NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  NEXT  BNC+
body      NEXT   NEXT  NEXT   NEXT  BNC  NEXT NEXT    NEXT  -    NEXT NEXT    -     AMB   -
dot       AMB    AMB   AMB    NEXT+ BNC+ NEXT AMB     AMB   AMB  AMB  AMB     AMB   OK    OK+
MAIL>     NEXT   NEXT  NEXT   NEXT+ BNC+ NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  -     BNC+
RCPT>     NEXT   NEXT  NEXT   NEXT+ BNC+ NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  -     BNC+
DATA>     NEXT   NEXT  NEXT   NEXT+ BNC+ NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  NEXT  BNC+
MAIL*     NEXT   NEXT  NEXT   NEXT+ BNC+ NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  -     BNC+
RCPT*     NEXT   NEXT  NEXT   NEXT+ BNC+ NEXT NEXT    NEXT  NEXT NEXT NEXT    NEXT  -     BNC+
BDAT*     AMB    AMB   AMB    NEXT+ BNC+ NEXT AMB     AMB   AMB  AMB  AMB     AMB   OK    OK+
MAIL&     AMB    AMB   AMB    OK+   BNC+ OK   AMB     AMB   AMB  AMB  AMB     AMB   -     BNC+
RCPT&     AMB    AMB   AMB    NEXT+ BNC+ NEXT AMB     AMB   AMB  AMB  AMB     AMB   -     BNC+
BDAT&     AMB    AMB   AMB    NEXT+ BNC+ NEXT AMB     AMB   AMB  AMB  AMB     AMB   AMB   OK+
body*     NEXT   NEXT  NEXT   NEXT  BNC  NEXT NEXT    NEXT  -    NEXT NEXT    -     AMB   -
QUIT      OK     OK    OK     OK    OK   OK   OK      OK    OK   OK   OK      OK    OK    OK
idle      -      OK    OK     OK    OK   OK   OK      OK    OK   OK   OK      OK    OK    OK
RSET      BNC    BNC   BNC    BNC   BNC  BNC  BNC     BNC   BNC  BNC  BNC     BNC   BNC   BNC+
reuse     OK     OK    OK     OK+   BNC+ OK   OK      OK    OK   OK   OK      OK    OK    BNC+
'''

NOTES = '''\
!  TLS is required (smtp_tls_security_level = encrypt); without it, may
>  the server offers PIPELINING and has the whole group before it answers
*  it offers CHUNKING too; the message is the first of its connection, so BDAT waits for the replies
   to the envelope; body*: a large one
&  the same, but it is the second of its connection, and the server has all of it before it answers;
   421 to its MAIL and the end: it was not taken, and goes again as if nothing had been. So does what
   is told 4yz to the second MAIL of a session, which asks to slow down (reuse too)
body: "class" is a second 354, "extra" a 250 before the end of the message
RCPT: the fault meets the second of three recipients; what it leaves of the others is checked too
QUIT, idle, reuse: of the next message, which needs one attempt'''

TLS_OFFER = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250-peer.test\nsend 250 STARTTLS\nexpect STARTTLS'
AUTH_OFFER = 'send 220 peer.test ESMTP\nexpect EHLO\nsend 250-peer.test\nsend 250 AUTH PLAIN\nexpect AUTH'
MAIL = 'plain\nexpect MAIL'
RCPT = MAIL + '\nsend 250 2.1.0 ok\nexpect RCPT'
GROUP = 'hello\nexpect MAIL\nexpect RCPT\nexpect DATA'
CHUNK = 'chunks\nexpect MAIL\nexpect RCPT'
STREAM = (CHUNK + '\nsend 250 2.1.0 ok\nsend 250 2.1.5 ok\nchunk\ngate\nsend 250 2.6.0 kept\n'
          'begin\nexpect RCPT\nchunk')
ONCE = 'plain\nenvelope\ndata\nsend 250 2.0.0 kept'

# What comes before the reply that is at fault, the code of a good reply, and what belongs behind
# the faulty one: replies to the rest of a group that was sent whole.
POINTS = {
    'connect': ('', '', ''),
    'banner': ('', '220', ''),
    'EHLO': ('send 220 peer.test ESMTP\nexpect EHLO', '250', ''),
    'HELO': ('send 220 peer.test\nexpect EHLO\nsend 502 5.5.1 what\nexpect HELO', '250', ''),
    'STARTTLS': (TLS_OFFER, '220', ''),
    'TLS': (TLS_OFFER + '\nsend 220 go', '', ''),
    'EHLO!': ('secure\nexpect EHLO', '250', ''),
    'AUTH': (AUTH_OFFER, '235', ''),
    'MAIL': (MAIL, '250', ''),
    'RCPT': (RCPT + '\nsend 250 2.1.5 ok\nexpect RCPT', '250', ''),
    'DATA': (RCPT + '\nsend 250 2.1.5 ok\nexpect DATA', '354', ''),
    'body': ('plain\nenvelope\nhear', '354', ''),
    'dot': ('plain\nenvelope\ndata', '250', ''),
    'MAIL>': (GROUP, '250', 'send 503 5.5.1 no sender\nsend 503 5.5.1 no sender'),
    'RCPT>': (GROUP + '\nsend 250 2.1.0 ok', '250', 'send 554 5.5.1 nobody'),
    'DATA>': (GROUP + '\nsend 250 2.1.0 ok\nsend 250 2.1.5 ok', '354', ''),
    'MAIL*': (CHUNK, '250', 'send 503 5.5.1 no sender'),
    'RCPT*': (CHUNK + '\nsend 250 2.1.0 ok', '250', ''),
    'BDAT*': (CHUNK + '\nsend 250 2.1.0 ok\nsend 250 2.1.5 ok\nchunk', '250', ''),
    'MAIL&': (STREAM, '250', 'send 503 5.5.1 no sender\nsend 503 5.5.1 no sender'),
    'RCPT&': (STREAM + '\nsend 250 2.1.0 ok', '250', 'send 503 5.5.1 nobody'),
    'BDAT&': (STREAM + '\nsend 250 2.1.0 ok\nsend 250 2.1.5 ok', '250', ''),
    'body*': ('chunks\nexpect MAIL\nsend 250 2.1.0 ok\nexpect RCPT\nsend 250 2.1.5 ok\n'
              'expect BDAT\nhear', '354', ''),
    'QUIT': (ONCE + '\nexpect QUIT', '221', ''),
    'idle': (ONCE, '250', ''),
    'RSET': (RCPT + '\nsend 550 5.1.1 nobody\nexpect RSET', '250', ''),
    'reuse': (ONCE + '\nexpect MAIL', '250', ''),
}

# The client acts on these before it knows the rest of the reply.
REFUSED_WHEN_UNCLEAN = ('MAIL', 'RCPT', 'DATA', 'MAIL>', 'RCPT>', 'DATA>', 'MAIL*',
                        'RCPT*', 'MAIL&', 'RCPT&', 'reuse')
UNCLEAN = r'a\x00b\x1b[31mc\xff\r\n'


def outcomes():
    """{(row, column): outcome}"""
    head, *lines = OUTCOMES.strip('\n').splitlines()
    columns = head.split()
    found = {}
    for line in lines:
        row, *cells = line.split()
        assert len(cells) == len(columns), line
        found.update({(row, column): cell for column, cell in zip(columns, cells) if cell != '-'})
    return found


def is_body(row):
    return row.startswith('body')


def is_whole(row):
    """The server has the whole message when the fault comes."""
    return row in ('dot', 'BDAT*') or is_second(row)


def is_second(row):
    """Another message goes before it on the connection, and goes well."""
    return row.endswith('&')


def base(row):
    return row if row in POINTS else row.rstrip('!')


def unclean(row, good):
    if base(row) in ('EHLO', 'EHLO!'):
        # The keyword line with the NUL must not count: no message is so small.
        return r'raw 250-peer.test\r\n250-SIZE 10\x00\r\n250 HELP\r\n'
    if row in REFUSED_WHEN_UNCLEAN:
        return 'raw 550 5.7.1 ' + UNCLEAN
    return f'raw {good} ' + UNCLEAN


def in_handshake(column):
    """Instead of a TLS server's first message."""
    return {'silent': 'silence', 'reset': 'hear\nreset', 'finish': 'hear\nclose',
            'garbage': 'hear\nsend 554 5.7.0 no TLS here\nserve',
            'drip': 'hear\nraw \\x16\\x03\\x03\\x40\\x00\ndrip ' + 'x' * 100,
            'line': 'hear\nraw \\x16\\x03\\x03\\xff\\xff\nflood x'}[column]


def fault(row, column):
    """The lines of the fault and of what the server does afterwards: it goes on as if nothing had
    happened, so that a connection that ought to be left would be found in use."""
    _, good, after = POINTS[base(row)]
    if base(row) == 'TLS':
        return in_handshake(column)
    lines = {
        'silent': 'silence', 'reset': 'reset',
        'finish': 'finish\nwait' if is_body(row) else 'close',
        '4yz': 'send 450 4.7.1 later', '5yz': 'send 550 5.7.1 never',
        '421': 'send 421 4.3.2 bye\nclose', 'garbage': 'send what is this',
        'class': 'send 250 odd' if good == '354' and not is_body(row) else 'send 354 odd',
        'drip': f'drip {good} ' + 'x' * 200,
        'line': f'raw {good} \nflood x', 'endless': f'flood {good}-x\\r\\n',
        'mixed': f'raw {good}-a\\r\\n550 b\\r\\n',
        'extra': 'send 250 early' if is_body(row) else f'raw {good} a\\r\\n{good} b\\r\\n',
        'unclean': unclean(row, good),
    }[column]
    return '\n'.join((lines, after, 'wait' if is_body(row) else 'serve'))


def script(row, column):
    return '\n'.join((POINTS[base(row)][0], 'mark', fault(row, column)))


def later_script(row):
    """Of the connections after the first."""
    return 'secure\nserve' if row.endswith('!') else 'good'


LOST, UNCONNECTED, BROKEN, NO_TLS = (0, '4.4.2'), (0, '4.4.1'), (None, '4.5.0'), (0, '4.7.5')
REPLIES = {'silent': LOST, 'reset': LOST, 'finish': LOST, 'drip': LOST, '421': (421, '4.3.2'),
           'garbage': BROKEN, 'class': BROKEN, 'line': BROKEN, 'endless': BROKEN, 'mixed': BROKEN,
           'extra': BROKEN, 'unclean': BROKEN, '4yz': (450, '4.7.1')}


def reply(row, column, outcome):
    """(code or None, status) of a result that is no delivery, at a single server"""
    if outcome.startswith('BNC'):
        return (550, '5.1.1') if row == 'RSET' else (550, '5.7.1')
    if row == 'connect':
        return UNCONNECTED
    if base(row) == 'TLS' and column not in ('silent', 'drip'):
        return NO_TLS
    if (row, column) == ('AUTH', 'class'):
        return None, '4.7.0'  # a challenge, for all the client can tell
    return (550, '4.7.1') if column == '5yz' else REPLIES[column]
