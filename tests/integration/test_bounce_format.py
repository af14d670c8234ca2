"""Notices read by Python's email package, which nobody here wrote."""

import email
import email.policy
import email.utils
import os
import subprocess

import pytest

PRINTER = os.environ.get("PRINT_BOUNCE", "")
pytestmark = pytest.mark.skipif(not PRINTER, reason="PRINT_BOUNCE names the printer")


def notice(kind, is_utf8=False):
    """The parsed notice and its raw bytes; the exit status says whether it needs SMTPUTF8."""
    run = subprocess.run([PRINTER, kind], stdout=subprocess.PIPE, check=False)
    assert run.returncode == int(is_utf8)
    raw = run.stdout
    for line in raw.split(b"\r\n"):
        assert len(line) <= 998
        assert b"\r" not in line and b"\n" not in line and b"\0" not in line
    message = email.message_from_bytes(raw, policy=email.policy.SMTPUTF8)
    for part in message.walk():
        assert part.defects == [], part.get_content_type()
    assert message.get_content_type() == "multipart/report"
    assert message.get_param("report-type") == "delivery-status"
    parts = list(message.iter_parts())
    assert len(parts) == 3
    return message, parts, raw


def groups(part):
    """The field groups of a delivery-status part."""
    return [dict(group.items()) for group in part.get_payload() if group.items()]


def test_failure():
    message, (text, status, original), raw = notice("failure")
    assert message["Subject"] == "Undelivered mail returned to sender"
    assert message["Auto-Submitted"] == "auto-replied"
    assert message["To"].addresses[0].addr_spec == "a@x.example"
    sender = message["From"].addresses[0]
    assert (sender.display_name, sender.addr_spec) == (
        "Mail Delivery System",
        "MAILER-DAEMON@relay.example",
    )
    assert email.utils.parsedate_to_datetime(str(message["Date"])).timestamp() == 1795253442
    assert message["Message-Id"].endswith("@relay.example>")
    assert raw.isascii()

    assert text.get_content_type() == "text/plain"
    assert "User unknown in" in text.get_content()
    assert "given up" in text.get_content()

    assert status.get_content_type() == "message/delivery-status"
    whole, first, second = groups(status)
    assert whole["Reporting-MTA"] == "dns; relay.example"
    assert whole["Original-Envelope-Id"] == "QQ314159"
    assert email.utils.parsedate_to_datetime(whole["Arrival-Date"]).timestamp() == 1795253382
    assert first["Original-Recipient"] == "rfc822;alias@y.example"
    assert first["Final-Recipient"] == "rfc822; b@y.example"
    assert (first["Action"], first["Status"]) == ("failed", "5.1.1")
    assert first["Remote-MTA"] == "dns; mx.y.example"
    assert first["Diagnostic-Code"].startswith("smtp; 550 5.1.1 <b@y.example>: Recipient")
    words = " ".join(first["Diagnostic-Code"].split())  # unfolding differs between Python versions
    assert words.endswith("try once more")
    assert second["Final-Recipient"] == 'rfc822; "odd \\" one"@z.example'
    assert (second["Action"], second["Status"]) == ("failed", "4.4.1")
    assert second["Diagnostic-Code"].startswith("x-sluice; connect to mx.z.example")
    assert second["Diagnostic-Code"].endswith("timed out --x")
    assert "Remote-MTA" not in second

    assert original.get_content_type() == "message/rfc822"
    inner = original.get_payload(0)
    assert inner["Subject"] == "Gr\u00fc\u00dfe"
    assert [p.get_content().strip() for p in inner.iter_parts()] == ["first part", "second part"]


def test_delay():
    message, (text, status, original), _ = notice("delay")
    assert message["Subject"] == "Delayed mail (still being tried)"
    assert "warning only" in text.get_content()
    _, first, second = groups(status)
    assert first["Action"] == second["Action"] == "delayed"
    until = email.utils.parsedate_to_datetime(first["Will-Retry-Until"])
    assert until.timestamp() == 1795253382 + 432000
    assert original.get_content_type() == "text/rfc822-headers"


def test_header_only():
    _, (_, _, original), _ = notice("header")
    assert original.get_content_type() == "text/rfc822-headers"
    header = email.message_from_string(original.get_content(), policy=email.policy.SMTP)
    assert header["Message-Id"] == "<1@x.example>"
    assert header.get_payload() == ""


def test_international():
    message, (text, status, original), raw = notice("international", is_utf8=True)
    assert "To: <\u00e4@x.example>\r\n".encode() in raw
    assert message["Content-Transfer-Encoding"] == "8bit"
    assert "j\u00fcrgen+a@y.example" in text.get_content()
    assert status.get_content_type() == "message/global-delivery-status"
    assert "Final-Recipient: utf-8; j\u00fcrgen\\x{2B}a@y.example\r\n".encode() in raw
    assert "Diagnostic-Code: smtp; 550 gr\u00fc\u00df\r\n".encode() in raw
    assert original.get_content_type() == "message/global"
    assert raw.rstrip().endswith(b"--")
