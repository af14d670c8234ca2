"""The page of daily tasks: every command works and says what the task is about, every request
exists, and the page in the tree is about these tasks."""
import json
import os
import urllib.request

import pytest
import yaml

import daily_tasks
from support.address import free_port
from support.wait import PATIENCE

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs')


@pytest.fixture(scope='module')
def scene(module_place):
    return daily_tasks.Scene(module_place, free_port('127.0.0.11'))


def test_page_has_the_table():
    with open(os.path.join(DOCS, 'daily-tasks.md'), encoding='utf-8') as page:
        text = page.read()
    assert daily_tasks.HEAD in text, 'made with another script; see its first lines'
    assert daily_tasks.table() in text
    headings = [line[3:] for line in text.splitlines() if line.startswith('## ')]
    assert headings == [task.question for task in daily_tasks.TASKS]


@pytest.mark.parametrize('task', daily_tasks.TASKS, ids=lambda task: task.anchor)
def test_task(scene, task):
    """With its commands in their order; what they promise is in what they say."""
    text = daily_tasks.perform(scene, task)
    assert text.count('$ ') >= len(task.commands)


@pytest.mark.parametrize('task', daily_tasks.TASKS, ids=lambda task: task.anchor)
def test_requests_exist(task):
    with open(os.path.join(DOCS, 'openapi.yaml'), encoding='utf-8') as file:
        described = yaml.safe_load(file)['paths']
    for path in daily_tasks.paths(task):
        method, _, name = path.partition(' ')
        assert name in described and method.lower() in described[name], path


@pytest.mark.parametrize('task', daily_tasks.TASKS, ids=lambda task: task.anchor)
def test_questions_are_answered_over_http(scene, task):
    """GET of everything that the page names, as it stands there."""
    for request in task.http:
        method, _, path = request.partition(' ')
        if method == 'GET':
            url = f'http://127.0.0.1:{scene.daemon.http_port}{scene.fill_in(path)}'
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                assert answer.status == 200 and answer.read(), request


@pytest.mark.parametrize('task', daily_tasks.TASKS, ids=lambda task: task.anchor)
def test_orders_are_understood_over_http(scene, task):
    """Bodies of orders and flushes, as they stand there but for being dry runs."""
    for request in task.http:
        method, path, body = (request.split(' ', 2) + [''])[:3]
        if method == 'POST' and path in ('/v1/orders', '/v1/flush'):
            data = json.dumps({**json.loads(body), 'dry_run': True}).encode()
            url = f'http://127.0.0.1:{scene.daemon.http_port}{path}'
            ask = urllib.request.Request(url, data, {'Content-Type': 'application/json'})
            with urllib.request.urlopen(ask, timeout=PATIENCE) as answer:
                assert answer.status == 200 and 'would_match' in json.load(answer), request


@pytest.mark.parametrize('task', daily_tasks.TASKS, ids=lambda task: task.anchor)
def test_orders_on_lanes_are_understood_over_http(scene, task):
    """One behind the other, as they stand there."""
    for request in task.http:
        method, path, body = (request.split(' ', 2) + [''])[:3]
        if (method, path) == ('POST', '/v1/lanes'):
            url = f'http://127.0.0.1:{scene.daemon.http_port}{path}'
            ask = urllib.request.Request(url, body.encode(), {'Content-Type': 'application/json'})
            with urllib.request.urlopen(ask, timeout=PATIENCE) as answer:
                assert answer.status == 200 and json.load(answer)['count'] >= (1 if '"site"' in body else 0), request
