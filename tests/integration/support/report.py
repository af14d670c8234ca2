"""What a notice to a sender says (RFC 3464), read by Python's own parser."""
import email
import email.policy


class Report:
    def __init__(self, content):
        self.message = email.message_from_bytes(content, policy=email.policy.default)
        assert self.message.get_content_type() == 'multipart/report', self.message
        assert self.message.get_param('report-type') == 'delivery-status'
        assert not self.message.defects
        self.text, status, self.original = self.message.get_payload()
        blocks = status.get_payload()
        self.about, self.recipients = blocks[0], blocks[1:]

    def recipient(self, address):
        [found] = [r for r in self.recipients if r['Final-Recipient'] == f'rfc822; {address}']
        return found
