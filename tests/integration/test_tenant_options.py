"""By which transport the mail of a tenant leaves, and how long it is tried."""
from support.client import message, submit
from support.reloading import reload
from support.wait import until

FROM = 'sender@sender.test'
LISTENER = {'tenant_header': 'X-Tenant', 'relay_from': ['127.0.0.0/8']}


def message_of(daemon, name):
    """Its one queued message."""
    until(lambda: len(daemon.query('messages', '--tenant', name)) == 1, f'mail of {name}')
    [row] = daemon.query('messages', '--tenant', name)
    return daemon.query('message', row['id'])[0]


def test_a_tenant_has_a_transport(place):
    """By route "*" alone; by reload it counts for what comes to its turn from then on; kept over a restart."""
    receiver = place.receiver()
    held = {'hold': True}
    daemon = place.sluice(
        listener=LISTENER, tenants={'own': {'transport': 'second'}},
        transports={'first': held, 'second': held},
        routes={'named.test': ('first', receiver.nexthop), '*': ('first', receiver.nexthop)})
    for number, tenant in enumerate(('own', 'other')):
        submit(daemon, FROM, [f'a{number}@a.test', f'b{number}@named.test'], message(X_Tenant=tenant))
    def places():
        return {(row['transport'], row['destination']): row['todo']
                for row in daemon.query('destinations')}
    until(lambda: places() == {('first', receiver.nexthop): 2, ('second', receiver.nexthop): 1},
          f'both transports: {places()}')
    def counted():  # of what the tables have; what came just now may be in the journal alone
        return {row['transport']: row['recipients'] for row in daemon.query('counts', '--by', 'transport')}
    until(lambda: counted() == {'first': 3, 'second': 1}, counted)
    daemon.kill()
    daemon.start()
    until(lambda: places() == {('first', receiver.nexthop): 2, ('second', receiver.nexthop): 1},
          'the same after a restart')
    daemon.tenants = {'other': {'transport': 'second'}}
    daemon.transports = {'first': {}, 'second': {}}
    reload(daemon)
    until(lambda: len(receiver.messages) == 3, 'all mail')
    submit(daemon, FROM, ['c@a.test'], message(X_Tenant='other'))
    assert daemon.wait_event('Delivery', 'c@a.test')['transport'] == 'second'


def test_a_transport_that_is_gone_takes_its_tenants_mail_along(place):
    """It is routed anew, with the settings of the reload."""
    receiver = place.receiver()
    routes = {'*': ('first', receiver.nexthop)}
    daemon = place.sluice(listener=LISTENER, tenants={'own': {'transport': 'second'}}, routes=routes,
                          transports={'first': {}, 'second': {'hold': True}})
    submit(daemon, FROM, ['a@a.test'], message(X_Tenant='own'))
    assert message_of(daemon, 'own')['list'][0]['transport'] == 'second'
    daemon.tenants, daemon.transports = {}, {'first': {}}
    reload(daemon)
    daemon.wait_event('Delivery', 'a@a.test')


def test_a_tenant_has_a_lifetime(place):
    """0: one attempt. What the global one says counts for all others; bounces never live longer."""
    receiver = place.receiver(answers=lambda verb, argument, session:
                              '451 4.3.0 later' if verb == 'RCPT' else None)
    daemon = place.sluice(listener=LISTENER, routes={'*': ('smtp', receiver.nexthop)},
                          tenants={'once': {'maximal_queue_lifetime': '0', 'notices': False},
                                   'long': {'maximal_queue_lifetime': '9d'}})
    for tenant in ('once', 'long', 'other'):
        submit(daemon, FROM, [f'{tenant}@a.test'], message(X_Tenant=tenant))
    submit(daemon, '', ['null@a.test'], message(X_Tenant='once'))
    for name in ('once', 'null'):
        assert daemon.wait_event('Expiration', f'{name}@a.test')['num_attempts'] == 1
    days = {}
    for tenant in ('long', 'other'):
        daemon.wait_event('TransientFailure', f'{tenant}@a.test')
        shown = message_of(daemon, tenant)
        days[tenant] = round((shown['expires'] - shown['created']) / 86400)
        text = daemon.command('why', shown['id']).stdout.decode()
        said = f'maximal_queue_lifetime = {days[tenant]}d'
        assert said in text and ('(set at' in text.split(said)[1].split('\n')[0]) == (tenant == 'long')
    assert days == {'long': 9, 'other': 5}


def test_what_is_wrong_with_a_tenants_transport(place):
    routes = {'*': ('smtp', None)}
    for tenants, transports, routes, expected in [
            ({'a': {'transport': 'smpt'}}, {'smtp': {}}, routes,
             'there is no transport "smpt"; name one that this file defines; did you mean "smtp"?'),
            ({'a': {'transport': 'smtp'}}, {'smtp': {}}, {'a.test': ('smtp', None)},
             'it is taken in place of that of route "*", and there is no such route')]:
        daemon = place.sluice(tenants=tenants, transports=transports, routes=routes, start=False)
        done = daemon.command('check')
        assert done.returncode != 0 and expected in done.stderr.decode(), done.stderr
