"""docs/openapi.yaml says of every route of engine/report/api_routes.c what it takes, and of no other; one
TAP line each.

usage: check_openapi.py OPENAPI.yaml LIST_ROUTES
"""
import re
import subprocess
import sys

import yaml

METHODS = {'get', 'post', 'delete', 'put', 'patch'}


class Description:
    def __init__(self, path):
        with open(path, encoding='utf-8') as text:
            self.root = yaml.safe_load(text)

    def follow(self, node):
        """What a $ref leads to."""
        while isinstance(node, dict) and '$ref' in node:
            target = self.root
            for name in node['$ref'].removeprefix('#/').split('/'):
                target = target[name]
            node = target
        return node

    def refs(self, node=None):
        """Every $ref, to see that it leads somewhere."""
        if isinstance(node, dict):
            for name, value in node.items():
                if name == '$ref':
                    yield value
                else:
                    yield from self.refs(value)
        elif isinstance(node, list):
            for value in node:
                yield from self.refs(value)

    def routes(self):
        """{(METHOD, path): (query parameters, operation)}"""
        found = {}
        for path, item in self.root['paths'].items():
            for method in METHODS & item.keys():
                operation = item[method]
                parameters = [self.follow(one) for one in
                              item.get('parameters', []) + operation.get('parameters', [])]
                in_path = {one['name'] for one in parameters if one['in'] == 'path'}
                assert in_path == set(re.findall(r'{(\w+)}', path)), f'{path}: its {{...}}'
                found[method.upper(), path] = ({one['name'] for one in parameters
                                                if one['in'] == 'query'}, operation)
        return found


def routes_of_program(program):
    found = {}
    for line in subprocess.run([program], capture_output=True, text=True,
                               check=True).stdout.splitlines():
        method, path, *params = line.split()
        found[method, re.sub(r':(\w+)', r'{\1}', path)] = set(params)
    return found


def problems_of(route, there, described):
    if route not in there:
        yield 'is no route of engine/report/api_routes.c'
    if route not in described:
        yield 'is not described'
        return
    params, operation = described[route]
    if route in there and params != there[route]:
        yield (f'parameters: not described {sorted(there[route] - params)}, '
               f'described only {sorted(params - there[route])}')
    if not operation.get('summary'):
        yield 'has no summary'
    if not any(str(code).startswith('2') for code in operation.get('responses', {})):
        yield 'has no good response'


def main():
    description = Description(sys.argv[1])
    there = routes_of_program(sys.argv[2])
    described = description.routes()
    names = sorted(there.keys() | described.keys())
    print(f'1..{len(names) + 1}')
    failed = False
    for number, route in enumerate(names, 1):
        problems = list(problems_of(route, there, described))
        failed |= bool(problems)
        print(f'{"not ok" if problems else "ok"} {number} - {" ".join(route)}')
        for problem in problems:
            print(f'# {" ".join(route)} {problem}')
    lost = []
    for ref in set(description.refs(description.root)):
        try:
            description.follow({'$ref': ref})
        except KeyError:
            lost.append(ref)
    print(f'{"not ok" if lost else "ok"} {len(names) + 1} - every $ref leads somewhere')
    for ref in lost:
        print(f'# {ref}')
    sys.exit(1 if failed or lost else 0)


main()
