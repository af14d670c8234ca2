"""Messages of every shape that mail may have, by chance."""

WORDS = ['a', 'word', 'two  spaces', 'tab\there', ' leading', 'trailing ', '\t', 'ä'.encode().decode('latin-1'), 'x' * 300,
         '=?utf-8?q?=C3=A4?=', 'comma,colon:semicolon;', '"quoted \\" text"', '<a@b.test>', '-', '.', '..', '']
NAMES = ['To', 'Cc', 'Subject', 'Date', 'Message-ID', 'Reply-To', 'MIME-Version', 'Content-Type', 'List-Unsubscribe',
         'List-Unsubscribe-Post', 'X-Other', 'Received', 'DKIM-Signature-not', 'references', 'IN-REPLY-TO', 'Feedback-ID',
         'Resent-From', 'Sender']


def draw_value(rng):
    value = ''.join(rng.choice(WORDS) + rng.choice(['', ' ', '  ', '\t', '\r\n ', '\r\n\t \t']) for _ in range(rng.randrange(6)))
    lines = value.split('\r\n')  # a line of white space alone would end what it continues in some eyes
    return '\r\n'.join(line for i, line in enumerate(lines) if i == 0 or line.strip())


def draw_body(rng):
    if rng.random() < .05:
        return rng.choice(['', '\r\n', '\r\n\r\n\r\n', ' \r\n', ' \r\n \t\r\n', 'no end of line', 'a \t\r\n'])
    lines = [''.join(rng.choice(WORDS) + rng.choice(['', ' ', '\t ']) for _ in range(rng.randrange(8))) for _ in range(rng.randrange(30))]
    return '\r\n'.join(lines).rstrip(' \t') + '\r\n' * rng.randrange(4)  # SMTP ends each line; the standard leaves open what blanks are without


def draw_message(rng):
    fields = [('From', '"Some Body" <a@sender.test>')] + [(rng.choice(NAMES), draw_value(rng)) for _ in range(rng.randrange(12))]
    rng.shuffle(fields)
    header = ''.join(f'{name}:{rng.choice(["", " ", chr(9), "  "])}{value}\r\n' for name, value in fields)
    return f'{header}\r\n{draw_body(rng)}'.encode('latin-1')
