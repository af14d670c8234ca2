"""Configurations that are wrong in hundreds of ways: `sluice check` says FILE:LINE: KEY: what and what
would be right, and ends with 78; a daemon that is asked to reload one says the same and goes on with
the old one. What tests/unit/test_config_load.c has is not repeated but for its kind."""
import json
import os
import re
import subprocess

import pytest

from support import api
from support.daemon import PROGRAM
from support.raw_http import head, post, say
from support.sanitizer import check_log

# {section: (title, {kind of value: options})}: each option gets what its kind does not take.
SECTIONS = {
    '': (None, {
        'number': ['workers', 'scheduler_threads', 'hopcount_limit', 'message_active_limit',
                   'message_recipient_limit', 'message_recipient_minimum'],
        'bool': ['allow_loopback', 'confirm_delay_cleared', 'destination_concurrency_feedback_debug'],
        'time': ['shutdown_timeout', 'queue_run_delay', 'minimal_backoff_time',
                 'maximal_backoff_time', 'maximal_queue_lifetime', 'bounce_queue_lifetime',
                 'delay_warning_time'],
        'size': ['map_size', 'spool_reserve', 'spool_ballast', 'spool_journal', 'intake_memory',
                 'inject_size_limit', 'trace_memory', 'bounce_size_limit'],
        'text': ['hostname', 'user']}),
    'event_log': (None, {'size': ['rotate_size'], 'number': ['rotate_keep']}),
    'control': (None, {'text': ['path']}),
    'dns': (None, {'time': ['timeout'], 'number': ['tries'], 'addresses': ['servers']}),
    'listener': ('127.0.0.1:1', {
        'bool': ['require_tls', 'keep_control_headers', 'notices'], 'choice': ['received_header'], 'size': ['message_size_limit'], 'networks': ['relay_from'],
        'time': ['smtpd_timeout'], 'text': ['tls_certificate', 'users', 'tenant'],
        'number': ['smtpd_recipient_limit', 'smtpd_hard_error_limit', 'smtpd_junk_command_limit',
                   'smtpd_connection_limit', 'smtpd_client_connection_count_limit',
                   'line_length_limit']}),
    'http': ('127.0.0.1:1', {'number': ['connection_limit'], 'size': ['request_size_limit'],
                             'time': ['timeout'], 'text': ['tokens_file', 'tls_key']}),
    'webhook': ('https://x.test/', {'choice': ['format'], 'number': ['batch_size'],
                                    'time': ['batch_wait', 'timeout'], 'text': ['secret_file']}),
    'csv': ('/nonexistent/x', {'size': ['rotate_size'], 'number': ['rotate_keep']}),
    'tenant': ('acme', {'bool': ['notices'], 'a rate': ['max_message_rate', 'max_recipient_rate'],
                        'quota': ['max_message_quota'], 'text': ['pool']}),
    'source': ('s9', {'ipv4': ['address'], 'ipv6': ['address6'], 'address': ['haproxy', 'socks5'],
                      'text': ['helo_name'], 'a rate': ['max_message_rate', 'max_connection_rate'],
                      'quotas': ['warmup'], 'date': ['since']}),
    'pool': ('p9', {'numbers': ['weights']}),
    'transport': ('t9', {
        'choice': ['scheduler', 'concurrency_feedback_rule', 'smtp_tls_security_level', 'inet_protocols'],
        'feedback': ['destination_concurrency_positive_feedback',
                     'destination_concurrency_negative_feedback'],
        'bool': ['hold', 'smtp_skip_5xx_greeting', 'smtp_always_send_ehlo', 'smtp_auth_requires_tls'],
        'number': ['initial_destination_concurrency', 'destination_concurrency_limit',
                   'destination_concurrency_failed_cohort_limit', 'destination_recipient_limit',
                   'delivery_slot_cost', 'recipient_limit', 'process_limit', 'pipeline_depth',
                   'smtp_tcp_port', 'smtp_mx_address_limit'],
        'rate': ['max_message_rate', 'max_recipient_rate', 'max_connection_rate', 'site_message_rate'],
        'quota': ['max_message_quota'],
        'time': ['destination_rate_delay', 'block_pause', 'block_grace', 'smtp_connect_timeout', 'smtp_helo_timeout',
                 'smtp_data_done_timeout', 'smtp_connection_cache_time_limit'],
        'text': ['source_pool', 'verp', 'list_unsubscribe', 'smtp_helo_name', 'smtp_tls_CAfile']}),
    'provider': ('p9', {'patterns': ['mx', 'domains'], 'a rate': ['max_message_rate'], 'quota': ['max_message_quota'],
                        'feedback': ['destination_concurrency_negative_feedback'],
                        'number': ['site_concurrency_limit', 'destination_concurrency_limit']}),
    'domain': ('x9.test', {'a rate': ['max_recipient_rate', 'site_message_rate'], 'time': ['smtp_rcpt_timeout'],
                           'choice': ['smtp_tls_security_level'], 'number': ['pipeline_depth']}),
    'route': ('x.test', {'choice': ['smtp_tls_security_level'], 'text': ['transport']}),
}
WRONG = {
    'number': ['-1', '1.5', '0x10', '"1 "', '99999999999999999999', '1e3', '""'],
    'bool': ['maybe', '2', '""'], 'time': ['-1s', '1.5h', '"5 m"', '"5s5s"', '99999999999999999999d', '""'],
    'size': ['-1', '1.5G', '5KB', '"1 M"', '99999999999999999999T', '""'], 'text': ['""', '"a\tb"', 'LONG'],
    'choice': ['""', 'NONE', 'all-of-it'], 'feedback': ['""', '"1/"', '"/2"', '"1/0"', '-1', '"2"'],
    'ipv4': ['1.2.3', '256.1.1.1', '"::1"', '""'], 'ipv6': ['"::g"', '1.2.3.4', '"[::1]"'],
    'address': ['localhost:1', '127.0.0.1:0', '127.0.0.1:65536', '"[::1"', '127.0.0.1:'],
    'addresses': ['{localhost}', '{"127.0.0.1:x"}', '{""}', '{"[::1]:99999"}'],
    'networks': ['{"10.0.0.0/33"}', '{"10.0.0.1/"}', '{"::1/129"}', '{""}', '{any}'],
    'rate': ['100', '"0/s"', '"100/s/s"', '"10/fortnight"', '"1.5/s"', '"10,00/s"', '"5/s, burst 0"', '"-1/s"', '"2000000/s"', '""'],
    'a rate': ['"100/s/h"', '"0/d"'], 'quota': ['"50/s"', '"0/d"', '"50/d, burst 5"'],
    'quotas': ['{"50/h"}', '{"50/d", "0/d"}', '{""}'], 'date': ['2026-13-01', '"1.12.2026"', '2026-02-30', '""'],
    'patterns': ['{"*"}', '{"a*.test"}', '{"a.*.test"}', '{""}', '{"[192.0.2.1]"}'],
    'numbers': ['{-1}', '{x}', '{1.5}', '{10001}', '{""}'],
}
CASES = {}  # name: (text, line, key)


def add(name, text, key, line=None):
    """line: of the mistake, counted in the text; the last one that is not empty"""
    assert name not in CASES, name
    CASES[name] = (text, line or text.rstrip('\n').count('\n') + 1, key)


def wrong_value(value):
    return f'"{"x" * 5000}"' if value == 'LONG' else value


for section, (title, kinds) in SECTIONS.items():
    for kind, options in kinds.items():
        for number, option in enumerate(options):
            # Every kind of mistake for the first option of a kind, one of them for each other.
            values = WRONG[kind] if number == 0 else [WRONG[kind][number % len(WRONG[kind])]]
            for value in values:
                line = f'{option} = {wrong_value(value)}'
                start = f'{section} "{title}" {{' if title else f'{section} {{'
                add(f'{section or "top"}: {option} = {value}',
                    f'{start}\n{line}\n}}\n' if section else line, option, 2 if section else 1)
    start = f'{section} "{title}" {{' if title else f'{section} {{'
    option = next(iter(kinds.values()))[0]
    if section:
        add(f'{section}: unknown option', f'{start}\n\nnonsense = 1\n}}', 'nonsense', 3)
        add(f'{section}: unknown section inside', f'{start}\nnonsense {{ a = 1 }}\n}}', 'nonsense', 2)
        add(f'{section}: never closed', f'\n{start}\n\n', 'syntax', 2)
        add(f'{section}: a quote never closed', f'{start}\n{option} = "x\n}}\n', 'syntax', 2)
        add(f'{section}: no equal sign', f'{start}\n{option} 1\n}}', 'syntax', 2)
        add(f'{section}: no value', f'{start}\n{option} =\n}}', 'syntax', 3)
        add(f'{section}: as an option', f'{section} = 1', 'syntax')
    if title:
        add(f'{section}: twice', f'{start}}}\n{start}}}', title, 2)
        add(f'{section}: no title', f'{section} {{ }}', 'syntax')
        add(f'{section}: empty title', f'{section} "" {{\n}}\n', section, 1)
        add(f'{section}: title with a control character', f'{section} "a\x01b" {{\n}}\n', section, 1)
        add(f'{section}: title of 5000 bytes', f'{section} "{"x" * 5000}" {{\n}}\n', section, 1)

for name, (text, key, *at) in {
        'a tenant with a space': ('tenant "a b" { }', 'tenant'), 'a tenant by a pattern': ('tenant "ac*" { }', 'tenant'),
        'a tenant of 65 bytes': (f'tenant "{"t" * 65}" {{ }}', 'tenant'), 'a tenant in both cases': ('tenant "a" { }\ntenant "A" { }', 'tenant'),
        'the same pattern in two providers': ('provider a { mx = {"*.x.test"} }\nprovider b { mx = {"*.x.test"} }', 'mx'),
        'patterns that meet': ('provider a { mx = {"*.*.test"} }\nprovider b {\ndomains = {"y.test"}\nmx = {"a.b.test"} }', 'mx'),
        'domains that meet': ('provider a { domains = {"x.test"} }\nprovider b { domains = {"X.test."} }', 'domains'),
        'an option that no provider has': ('provider a {\nprocess_limit = 5 }', 'process_limit'),
        'an option that no domain has': ('domain x.test {\nsource_pool = p }', 'source_pool'),
        'an option that no source has': ('source a {\nsite_message_rate = "5/s" }', 'site_message_rate'),
        'dane of a provider': ('provider a {\nsmtp_tls_security_level = dane }', 'smtp_tls_security_level'),
        'a domain in both cases': ('domain a.test { }\ndomain A.test. { }', 'domain'), 'a domain by a pattern': ('domain "*.test" { }', 'domain'),
        'a domain in brackets': ('domain "[192.0.2.1]" { }', 'domain'), 'a domain with a port': ('domain "a.test:25" { }', 'domain'),
        'feedback that a rule does not know': ('transport t { concurrency_feedback_rule = postfix3 }\nprovider a {\n'
                                               'destination_concurrency_positive_feedback = "1/sqrt_concurrency" }',
                                               'destination_concurrency_positive_feedback'),
        'a tenant without its pool': ('tenant a {\npool = nothing }', 'pool'),
        'a warm-up that never begins': ('source a {\nwarmup = {"50/d"} }', 'warmup'), 'a day of no warm-up': ('source a {\nsince = 2026-12-01 }', 'since'),
        'a warm-up beside a quota': ('source a { warmup = {"50/d"} since = 2026-12-01\nmax_message_quota = "5/d" }', 'max_message_quota'),
        'a warm-up of no day': ('source a { warmup = {}\nsince = 2026-12-01 }', 'since'),
        'a warm-up of 367 days': ('source a { since = 2026-12-01\nwarmup = {' + ', '.join(['"5/d"'] * 367) + '} }', 'warmup'),
        'comment never closed': ('\n/* what is this', 'syntax'),
        'closing brace': ('}', 'syntax'), 'two closing braces': ('dns { } }', 'syntax'),
        'parenthesis': ('(', 'syntax'), 'equal signs': ('===', 'syntax'), 'comma': (',', 'syntax'),
        'list never closed': ('defer_transports = {a, b', 'syntax'),
        'list without commas': ('defer_transports = {a b}', 'syntax'),
        'list for a number': ('workers = {1, 2}', 'syntax'), 'appended number': ('workers += 1', 'syntax'),
        'two values': ('shutdown_timeout = 5s 6s', '6s'), 'a name alone': ('shutdown_timeout }', 'syntax'),
        'a quote alone': ('"', 'syntax'), 'a backslash at the end': ('user = "abc\\', 'syntax'),
        'JSON': ('{"workers": 1}', 'syntax'), 'an INI section': ('[spool]', '[spool]'),
        'control characters': ('\x01\x02\x03', ''), 'high bytes': ('\xff\xfe = 1', ''),
        'a name of 10000 bytes': ('x' * 10000 + ' = 1', ''), 'a word of Postfix': ('mynetworks = 10.0.0.0/8', 'mynetworks'),
        'a word of PowerMTA': ('transport t {\nmax-smtp-out = 20 }', 'max-smtp-out'), 'tags of PowerMTA': ('<domain *>', '<domain'),
        'a word of KumoMTA': ('max_age = 7d', 'max_age'), 'a word of Exim': ('remote_max_parallel = 2', 'remote_max_parallel'),
        'a section of OpenSMTPD': ('action "x" { }', 'action'), 'a section of KumoMTA': ('egress_source "x" { }', 'egress_source'),
        'a section in a section': ('transport t {\ndns { }\n}', 'dns', 2), 'a section as an option of another': ('dns {\nlistener = x }', 'listener'),
        'spans in the wrong order': ('queue_run_delay = 30m2h', 'queue_run_delay'), 'a span and a number': ('queue_run_delay = 2h30', 'queue_run_delay'),
        'a span below the least': ('queue_run_delay = 500ms', 'queue_run_delay'), 'a rate for a span': ('queue_run_delay = 100/m', 'queue_run_delay'),
        'a rate of none': ('transport_rate_delay = 0/s', 'transport_rate_delay'), 'a rate without unit': ('transport_rate_delay = "100/"', 'transport_rate_delay'),
        'a transport misspelt': ('route "y.test" { transport = smtpp }', 'transport'),
        'a section that is none': ('relay "x" { }', 'relay'), 'an option of another section': ('rotate_keep = 5', 'rotate_keep'),
        'an option twice': ('shutdown_timeout = 5s\nshutdown_timeout = 5s', 'shutdown_timeout'),
        'a list twice': ('dns {\nservers = {127.0.0.1} }', 'servers'),
        'include of nothing': ('include("/nonexistent/file")', 'include'),
        'include without name': ('include("")', 'include'), 'include without parentheses': ('include "x"', 'syntax'),
        'include of two': ('include("a", "b")', 'include'), 'include never closed': ('include("x" }', 'syntax'),
        'include of a folder': ('include("/proc")', 'include'), 'include of zeros': ('include("/dev/zero")', 'include'),
        'a route to nothing': ('route "y.test" { transport = nothing }', 'transport'),
        'a route without transport': ('route "y.test" { }', 'transport'),
        'a route twice': ('route "*" { transport = "smtp" }', '*'),
        'a pool of nothing': ('pool p { sources = {nothing} }', 'sources'),
        'a transport without its pool': ('transport t { source_pool = nothing }', 'source_pool'),
        'a nexthop that is none': ('route "y.test" { transport = smtp\nnexthop = "[a]:99999" }', 'nexthop'),
        'a nexthop with a space': ('route "y.test" { transport = smtp\nnexthop = "a b" }', 'nexthop'),
        'a user without password': ('transport t { smtp_auth_user = u }', 'smtp_auth_user'),
        'a key without certificate': ('listener "127.0.0.1:1" { tls_key = k }', 'tls_key'),
        'tokens missing off loopback': ('http "0.0.0.0:1" { }', 'tokens_file'),
        'a webhook to a file': ('webhook "file:///etc/passwd" { }', 'webhook'),
        'a webhook with a password': ('webhook "ftp://u:p@x.test/" { }', 'webhook'),
        'a webhook header of two lines': ('webhook "https://x.test/" { headers = {"A: b\nC: d"} }', 'headers'),
        'a webhook header without colon': ('webhook "https://x.test/" { headers = {"nonsense"} }', 'headers'),
        'events of no type': ('webhook "https://x.test/" { types = {Nonsense} }', 'types'),
        'rows of no column': ('csv "/nonexistent/x" { columns = {colour} }', 'columns'),
        'a column twice': ('csv "/nonexistent/x" { columns = {rcpt, rcpt} }', 'columns')}.items():
    add(name, text, key, *at)


@pytest.fixture(scope='module')
def daemon(module_place):
    daemon = module_place.sluice(http={'trust_loopback': True})
    yield daemon
    daemon.write_config()
    answer = api.get(daemon, '/v1/status').object
    assert answer['messages'] == 0
    assert daemon.stop() == 0
    check_log(daemon.log())


def write(daemon, data):
    """Behind what is right; returns the lines before it."""
    start = daemon.config_text().encode()
    with open(daemon.config_path, 'wb') as config:
        config.write(start + data)
    return start.count(b'\n')


def ascii_of(text):
    """JSON has no other bytes than UTF-8, and shows '?' for them."""
    return text.encode('ascii', 'replace').decode()


def refused(daemon):
    """The complaints of check, which a reload must have as well."""
    done = daemon.command('check')
    text = done.stderr.decode(errors='replace')
    assert done.returncode == 78, text
    [answer] = say(daemon, post('/v1/reload', b'{}'))
    assert answer.status == 422 and answer.object['code'] == 'wrong', answer
    errors = [line for line in text.splitlines() if ': warning: ' not in line]
    assert [ascii_of(line) for line in answer.object['complaints']] == [ascii_of(e) for e in errors]
    [answer] = say(daemon, head('/v1/status'))
    assert answer.status == 200
    return errors


def test_there_are_enough():
    assert len(CASES) >= 200


@pytest.mark.parametrize('name', CASES)
def test_malformed(daemon, name):
    text, line, key = CASES[name]
    before = write(daemon, text.encode('latin-1'))
    errors = refused(daemon)
    place = f'{daemon.config_path}:{before + line}: '
    found = [error for error in errors if error.startswith(f'{place}{key}')]
    assert found, (f'{before} + {line}: {key}', errors)
    assert all(re.fullmatch(r'[^\x00-\x1f\x7f]{10,1600}', error) for error in errors)
    assert '; ' in found[0], found  # what would be right


def test_all_mistakes_at_once_and_the_old_set_stays(daemon):
    """Of receivers, sources and tenants in one run; what was in force is, whole."""
    write(daemon, b'provider good { mx = {"*.good.test"} max_message_rate = "7/s" }\n'
                  b'domain d.test { smtp_rcpt_timeout = 9s }\ntenant acme { max_message_quota = "5/d" }\n')
    [answer] = say(daemon, post('/v1/reload', b'{}'))
    assert answer.status == 200, answer
    before = api.get(daemon, '/v1/config').list
    ours = {(row['section'], row.get('title'), row['option']): row['value'] for row in before}
    assert ours['provider', 'good', 'max_message_rate'] == '7/s'
    assert ours['domain', 'd.test', 'smtp_rcpt_timeout'] == '9s'
    assert ('domain', 'd.test', 'smtp_mail_timeout') not in ours  # it does not say it
    assert ours['tenant', 'acme', 'max_message_quota'] == '5/d'
    lines = write(daemon, b'provider good { mx = {"*.good.test"} max_message_rate = "8/s" }\n'
                          b'provider a { mx = {"mx.good.test"} max_message_rate = "100/s/s" }\n'
                          b'domain d.test { max_message_rate = "0/s" process_limit = 5 }\n'
                          b'tenant acme { pool = none max_message_quota = "5/s" }\n'
                          b'source s { warmup = {"50/h"} since = 2026-12-40 }\n')
    said = {tuple(error.split(': ')[:2]) for error in refused(daemon)}
    assert said == {(f'{daemon.config_path}:{lines + line}', key) for line, key in (
        (2, 'max_message_rate'), (2, 'mx'), (3, 'max_message_rate'), (3, 'process_limit'),
        (4, 'max_message_quota'), (4, 'pool'), (5, 'warmup'), (5, 'since'))}
    assert api.get(daemon, '/v1/config').list == before


def test_binary(daemon):
    """Bytes without sense, of which some happen to be words."""
    for data in (b'\0', bytes(range(1, 256)) * 20, os.urandom(5000), b'\xff' * 10000, b'{' * 20000,
                 b'"' * 20001, b'\\' * 5000, b'(' * 5000, b'a{' * 5000, b'=' * 9999, b'\r' * 100 + b'}'):
        write(daemon, data)
        errors = refused(daemon)
        assert errors and errors[0].startswith(daemon.config_path)
        assert len(errors) <= 200


def test_empty_and_missing(daemon):
    for text in (b'', b'\n' * 5000, b'# nothing'):
        with open(daemon.config_path, 'wb') as config:
            config.write(text)
        assert daemon.command('check').returncode == 0  # with a warning: there is no route
    os.unlink(daemon.config_path)
    done = daemon.command('check')
    assert done.returncode == 66 and b'No such file' in done.stderr
    [answer] = say(daemon, post('/v1/reload', b'{}'))
    assert answer.status == 422
    os.mkdir(daemon.config_path)
    assert daemon.command('check').returncode == 66
    os.rmdir(daemon.config_path)


def test_the_environment_names_the_configuration(daemon):
    """SLUICE_CONFIG where -c names none; a missing file's error says both."""
    daemon.write_config()
    env = {**os.environ, 'SLUICE_CONFIG': daemon.config_path}

    def run(*words, **more):
        return subprocess.run([PROGRAM, *words], capture_output=True, check=False, env={**env, **more})
    assert run('check').returncode == 0
    assert json.loads(run('status', '--json').stdout)['messages'] == 0
    done = run('check', SLUICE_CONFIG='/nonexistent/x')
    assert done.returncode == 66
    assert b'/nonexistent/x: No such file or directory; name a text file that can be read: -c FILE' in done.stderr
    assert run('check', '-c', daemon.config_path, SLUICE_CONFIG='/nonexistent/x').returncode == 0
    default = run('check', SLUICE_CONFIG='')
    assert b'/nonexistent' not in default.stderr


def test_near_names(daemon):
    """What was meant, at each place where a name is looked for."""
    for text, said in {'smtp_tls_security_level = encypt': 'did you mean "encrypt"?',
                       'route "y.test" { transport = smtpp }': 'did you mean "smtp"?',
                       'transport t { max-smtp-out = 2 }': 'what PowerMTA calls so is here: destination_concurrency_limit',
                       'max_age = 7d': 'what KumoMTA calls so is here: maximal_queue_lifetime',
                       'remote_max_parallel = 2': 'what Exim calls so is here: destination_concurrency_limit',
                       'action "x" { }': 'what OpenSMTPD has in it is here: a section transport',
                       'transprot "x" { }': 'there is no such section; did you mean transport?',
                       'rotate_keep = 5': 'it belongs in section event_log'}.items():
        write(daemon, text.encode())
        errors = refused(daemon)
        assert said in errors[0], (text, errors)


def test_includes_that_loop(daemon):
    other = os.path.join(daemon.folder, 'other.conf')
    write(daemon, f'include("{other}")\n'.encode())
    for text in (f'include("{other}")', f'include("{daemon.config_path}")', 'include("other.conf")'):
        with open(other, 'w', encoding='ascii') as file:
            file.write(f'\n{text}\n')
        errors = refused(daemon)
        assert any(': include: ' in error for error in errors), errors


def test_a_mistake_in_an_include(daemon):
    """It is told with its own file and line."""
    other = os.path.join(daemon.folder, 'other.conf')
    write(daemon, f'include("{other}")\n'.encode())
    with open(other, 'w', encoding='ascii') as file:
        file.write('\n\nhopcount_limit = 0\n')
    assert refused(daemon)[0].startswith(f'{other}:3: hopcount_limit: ')


SECRETS = {
    'tokens_file': 'http "127.0.0.1:1" {{\ntokens_file = "{0}"\n}}',
    'secret_file': 'webhook "https://x.test/" {{\nsecret_file = "{0}"\n}}',
    'smtp_auth_password_file': 'transport t {{ smtp_auth_user = u\nsmtp_auth_password_file = "{0}"\n}}\n'
                               'route "y.test" {{ transport = t nexthop = "[y.test]" }}',
    'socks5_password_file': 'source s {{ socks5 = "127.0.0.1:2" socks5_user = u\n'
                            'socks5_password_file = "{0}"\n}}',
    'tls_key': 'listener "127.0.0.1:1" {{ tls_certificate = "{0}"\ntls_key = "{0}"\n}}',
    'smtp_tls_cert_file': 'transport t {{\nsmtp_tls_cert_file = "{0}"\n}}',
    'smtp_tls_CAfile': 'transport t {{\nsmtp_tls_CAfile = "{0}"\n}}',
}


def test_warnings_are_told_to_those_who_start(place):
    """check, run and restart; a command that asks for something else prints what it was asked for."""
    daemon = place.sluice(suppressions={'*': {'mailbox_full': '1'}})
    warning = 'mailbox_full: warning: '
    assert warning in daemon.log() and warning in daemon.command('check').stderr.decode()
    for command in (['status'], ['explain', 'joe@x.test'], ['suppressions'], ['flush']):
        done = daemon.command(*command)
        assert done.returncode == 0 and warning not in done.stderr.decode(), (command, done.stderr)
    assert warning in daemon.command('restart').stderr.decode()


@pytest.mark.parametrize('key', SECRETS)
@pytest.mark.parametrize('kind', ['missing', 'empty', 'a folder', 'binary'])
def test_bad_files(place, key, kind):
    """check cannot know whether the daemon may read them, and warns; a daemon does not start."""
    daemon = place.sluice(start=False)
    path = os.path.join(daemon.folder, 'secret')
    if kind == 'a folder':
        os.mkdir(path)
    elif kind != 'missing':
        with open(path, 'wb', opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(b'' if kind == 'empty' else b'\0\xff\n\1' * 100)
    before = write(daemon, SECRETS[key].format(path).encode())
    done = daemon.command('check')
    assert done.returncode == 0
    if kind == 'missing':
        assert f'{daemon.config_path}:{before + 2}: {key}: warning: {path}' in done.stderr.decode()
    done = daemon.command('run')
    assert done.returncode == 78, done.stderr
    assert path in done.stderr.decode()
    check_log(done.stderr.decode())
