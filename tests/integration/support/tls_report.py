"""Reports of TLS-RPT as a reader sees them: what section 4.4 of RFC 8460 demands of the JSON, and the
mail around it, by Python's own parsers."""
import email
import email.policy
import gzip
import json
import os
import re

KEEP = os.environ.get('SLUICE_KEEP_REPORTS')  # a folder: what other parsers may try

FAILURES = {'starttls-not-supported', 'certificate-host-mismatch', 'certificate-expired',
            'certificate-not-trusted', 'validation-failure', 'tlsa-invalid', 'dnssec-invalid',
            'dane-required', 'sts-policy-fetch-error', 'sts-policy-invalid', 'sts-webpki-invalid'}
TIME = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$')
IP = re.compile(r'[0-9a-f.:]+$')

# {member: (type or a function that judges, is it required)}
DETAIL = {'result-type': (FAILURES.__contains__, True), 'sending-mta-ip': (IP.match, False),
          'receiving-mx-hostname': (str, False), 'receiving-mx-helo': (str, False),
          'receiving-ip': (IP.match, False), 'failed-session-count': (int, True),
          'additional-information': (str, False), 'failure-reason-code': (str, False)}
POLICY = {'policy-type': ({'tlsa', 'sts', 'no-policy-found'}.__contains__, True),
          'policy-string': ([str], False), 'policy-domain': (str, True), 'mx-host': ([str], False)}
SUMMARY = {'total-successful-session-count': (int, True), 'total-failure-session-count': (int, True)}
ENTRY = {'policy': (POLICY, True), 'summary': (SUMMARY, True), 'failure-details': ([DETAIL], False)}
REPORT = {'organization-name': (str, True),
          'date-range': ({'start-datetime': (TIME.match, True), 'end-datetime': (TIME.match, True)}, True),
          'contact-info': (str, True), 'report-id': (str, True), 'policies': ([ENTRY], True)}

# RFC 8460 appendix B
EXAMPLE = json.loads('''{
  "organization-name": "Company-X",
  "date-range": {"start-datetime": "2016-04-01T00:00:00Z", "end-datetime": "2016-04-01T23:59:59Z"},
  "contact-info": "sts-reporting@company-x.example",
  "report-id": "5065427c-23d3-47ca-b6e0-946ea0e8c4be",
  "policies": [{
    "policy": {"policy-type": "sts",
      "policy-string": ["version: STSv1","mode: testing", "mx: *.mail.company-y.example","max_age: 86400"],
      "policy-domain": "company-y.example", "mx-host": ["*.mail.company-y.example"]},
    "summary": {"total-successful-session-count": 5326, "total-failure-session-count": 303},
    "failure-details": [
      {"result-type": "certificate-expired", "sending-mta-ip": "2001:db8:abcd:0012::1",
       "receiving-mx-hostname": "mx1.mail.company-y.example", "failed-session-count": 100},
      {"result-type": "starttls-not-supported", "sending-mta-ip": "2001:db8:abcd:0013::1",
       "receiving-mx-hostname": "mx2.mail.company-y.example", "receiving-ip": "203.0.113.56",
       "failed-session-count": 200,
       "additional-information": "https://reports.company-x.example/report_info?id=5065427c"},
      {"result-type": "validation-failure", "sending-mta-ip": "198.51.100.62",
       "receiving-ip": "203.0.113.58", "receiving-mx-hostname": "mx-backup.mail.company-y.example",
       "failed-session-count": 3, "failure-reason-code": "X509_V_ERR_PROXY_PATH_LENGTH_EXCEEDED"}]}]}''')


def check(value, shape, at='report'):
    """Complains about each member that is not as its shape says."""
    if isinstance(shape, dict):
        assert isinstance(value, dict), at
        assert set(value) <= set(shape), (at, set(value) - set(shape))
        for name, (inner, is_required) in shape.items():
            assert name in value or not is_required, (at, name)
            if name in value:
                check(value[name], inner, f'{at}.{name}')
    elif isinstance(shape, list):
        assert isinstance(value, list), at
        for n, one in enumerate(value):
            check(one, shape[0], f'{at}[{n}]')
    elif isinstance(shape, type):
        assert type(value) is shape and value != '', (at, value)
    else:
        assert shape(value), (at, value)


def read(packed):
    """A report out of its gzip, checked."""
    if KEEP:
        with open(os.path.join(KEEP, f'{hash(packed) % 10**9}.json.gz'), 'wb') as file:
            file.write(packed)
    report = json.loads(gzip.decompress(packed))
    check(report, REPORT)
    for entry in report['policies']:
        failed = sum(one['failed-session-count'] for one in entry.get('failure-details', []))
        assert failed == entry['summary']['total-failure-session-count'], entry
    return report


def read_mail(content):
    """(mail, report) of a mail with one; RFC 8460 section 5.3."""
    if KEEP:
        with open(os.path.join(KEEP, f'{hash(content) % 10**9}.eml'), 'wb') as file:
            file.write(content)
    mail = email.message_from_bytes(content, policy=email.policy.default)
    assert mail.get_content_type() == 'multipart/report', mail
    assert mail.get_param('report-type') == 'tlsrpt'
    assert mail['TLS-Required'] == 'No'
    text, attachment = mail.iter_parts()
    assert text.get_content_type() == 'text/plain'
    assert attachment.get_content_type() == 'application/tlsrpt+gzip'
    report = read(attachment.get_content())
    domain, submitter = mail['TLS-Report-Domain'], mail['TLS-Report-Submitter']
    name = re.fullmatch(r'([^!]+)!([^!]+)!(\d+)!(\d+)![^!]+\.json\.gz', attachment.get_filename())
    assert name and name.group(1, 2) == (submitter, domain), attachment.get_filename()
    assert int(name[4]) - int(name[3]) == 86399
    subject = re.fullmatch(r'Report Domain: (\S+) Submitter: (\S+) Report-ID: <(\S+)>', mail['Subject'])
    assert subject and subject.groups() == (domain, submitter, report['report-id']), mail['Subject']
    return mail, report


def counts(report):
    """{(policy-type, result-type or 'ok'): sessions}"""
    found = {}
    for entry in report['policies']:
        kind = entry['policy']['policy-type']
        if entry['summary']['total-successful-session-count']:
            found[kind, 'ok'] = entry['summary']['total-successful-session-count']
        for one in entry.get('failure-details', []):
            key = kind, one['result-type']
            found[key] = found.get(key, 0) + one['failed-session-count']
    return found
