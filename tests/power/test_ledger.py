"""Whether the comparison of ledgers notices what it is there for. Run: pytest tests/power"""
import json

import pytest
from ledger import Ledger, read_ledger

HASH = 'abc'


def offered(*recipients):
    return {'event': 'offered', 'id': 'm', 'sender': 's@test', 'recipients': list(recipients),
            'sha256': HASH}


def fate(event, *refused):
    return {'event': event, 'id': 'm', 'text': '', 'refused': list(refused)}


def received(*recipients, **fields):
    return {'id': 'm', 'sender': 's@test', 'recipients': list(recipients), 'sha256': HASH,
            **fields}


def notice(number, *about, **fields):
    return {'notice': number, 'id': 'm', 'to': ['s@test'], 'about': list(about), **fields}


def ledger_of(source, *sinks):
    """sinks: records by session, from 1; receptions and notices"""
    ledger = Ledger()
    ledger.add_source(source)
    for session, records in enumerate(sinks, 1):
        ledger.add_sink(session, [record for record in records if 'notice' not in record])
        ledger.add_notices(session, [record for record in records if 'notice' in record])
    return ledger


def test_all_is_well():
    ledger = ledger_of([offered('a', 'b'), fate('acked')], [received('a')], [received('b')])
    ledger.check_halves()
    ledger.check_bounds({1: 0})
    assert not ledger.lost() and not ledger.wrong and not ledger.duplicates


def test_loss_of_one_recipient():
    ledger = ledger_of([offered('a', 'b'), fate('acked')], [received('a')])
    assert ledger.lost() == [('m', 'b')]


def test_refused_recipient_is_not_lost():
    ledger = ledger_of([offered('a', 'b'), fate('acked', 'b')], [received('a')])
    assert not ledger.lost()


def test_unacknowledged_may_be_absent_or_whole_but_not_half():
    absent = ledger_of([offered('a', 'b')], [])
    half = ledger_of([offered('a', 'b')], [received('a')])
    whole = ledger_of([offered('a', 'b')], [received('a', 'b')])
    for ledger in (absent, half, whole):
        ledger.check_halves()
        assert not ledger.lost()
    assert half.wrong and not absent.wrong and not whole.wrong


@pytest.mark.parametrize('record', [
    received('a', id='other'),
    received('a', id=''),
    received('a', sha256='abd'),
    received('a', sender=''),
    received('c'),
], ids=['never-offered', 'no-id', 'other-content', 'other-sender', 'other-recipient'])
def test_foreign_mail(record):
    assert len(ledger_of([offered('a'), fate('acked')], [record]).wrong) == 1


@pytest.mark.parametrize('event', ['refused', 'deferred', 'unsent'])
def test_mail_whose_client_was_told_no(event):
    assert ledger_of([offered('a'), fate(event)], [received('a')]).wrong


def test_repetition_without_a_cut():
    assert ledger_of([offered('a'), fate('acked')], [received('a'), received('a')]).wrong


def test_repetition_counts_for_the_cut_that_caused_it():
    ledger = ledger_of([offered('a', 'b'), fate('acked')], [received('a', 'b')], [],
                       [received('a', 'b')], [received('a')])
    assert not ledger.wrong
    assert ledger.duplicates == {1: 2, 3: 1}
    ledger.check_bounds({1: 2, 2: 0, 3: 1})
    assert not ledger.wrong
    ledger.check_bounds({1: 1, 2: 0, 3: 1})
    assert len(ledger.wrong) == 1


def test_a_returned_recipient_is_not_lost():
    ledger = ledger_of([offered('a', 'b'), fate('acked')], [received('a'), notice(1, 'b')])
    assert not ledger.lost() and not ledger.wrong
    half = ledger_of([offered('a', 'b')], [notice(1, 'b')])
    half.check_halves()
    assert half.wrong


@pytest.mark.parametrize('record', [notice(1, 'a', id='other'), notice(1, 'a', to=['x@test']),
                                    notice(1, 'c')], ids=['message', 'sender', 'recipient'])
def test_foreign_notice(record):
    assert len(ledger_of([offered('a'), fate('acked')], [record]).wrong) == 1


def test_a_notice_repeats_only_after_a_cut():
    source = [offered('a'), fate('acked')]
    repeated = ledger_of(source, [notice(1, 'a')], [notice(1, 'a')])
    assert not repeated.wrong and repeated.duplicates == {1: 1}
    assert ledger_of(source, [notice(1, 'a'), notice(1, 'a')]).wrong
    assert ledger_of(source, [notice(1, 'a')], [notice(2, 'a')]).wrong


def test_received_and_returned_needs_a_cut_in_between():
    source = [offered('a'), fate('acked')]
    assert not ledger_of(source, [received('a')], [notice(1, 'a')]).wrong
    assert ledger_of(source, [received('a'), notice(1, 'a')]).wrong
    assert ledger_of(source, [notice(1, 'a')], [received('a')]).wrong


def test_a_torn_line_is_no_line(tmp_path):
    path = tmp_path / 'ledger'
    path.write_text(json.dumps(offered('a')) + '\n{"event": "acked", "i', encoding='ascii')
    assert read_ledger(path) == [offered('a')]
    assert not read_ledger(tmp_path / 'absent')
