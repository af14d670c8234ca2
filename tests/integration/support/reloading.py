"""A reload of the daemon under test, and the configuration that it says is in force."""
import json

from support.api import Connection


def reload(daemon, status=200):
    """POST /v1/reload with the configuration as it is written now; the answer."""
    daemon.write_config()
    control = Connection(daemon)
    control.request('POST', '/v1/reload')
    response = control.getresponse()
    answer = json.loads(response.read())
    control.close()
    assert response.status == status, answer
    assert answer.get('reloaded', False) == (status == 200)
    return answer


def options_of(answer):
    return [item['option'] for item in answer['restart']]


def config_of(daemon):
    """GET /v1/config: {(section, title, option): object}"""
    control = Connection(daemon)
    control.request('GET', '/v1/config')
    *lines, end = [json.loads(line) for line in control.getresponse().read().splitlines()]
    control.close()
    assert end['end'] and end['count'] == len(lines) and not end['more']
    return {(o['section'], o.get('title'), o['option']): o for o in lines}
