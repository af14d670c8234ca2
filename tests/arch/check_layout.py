"""Rules of the house that a compiler does not check; one TAP line each.

usage: check_layout.py SOURCE_ROOT [ROOM=LIBRARY...]
ROOM=LIBRARY names the static library of a room, for the rules about undefined symbols.
"""
import os
import re
import subprocess
import sys

# Who may include whom.
MAY_INCLUDE = {
    'base': {'base'},
    'sched': {'base', 'sched'},
    'net': {'base', 'net'},
    'dns': {'base', 'dns'},
    'engine': {'base', 'sched', 'net', 'dns', 'engine'},
    'bench': {'base', 'sched', 'net', 'dns', 'engine', 'bench'},
    'tests': {'base', 'sched', 'net', 'dns', 'engine', 'bench', 'tests'},
}

# The rooms of engine/ and of bench/, bottom up: a room includes itself and rooms above it in this
# list. Files that stand in the folder itself are the room of its name.
ROOMS = [
    'engine/spool', 'engine/event', 'engine/config', 'engine/reply', 'engine/limit', 'engine/cluster', 'engine/replica',
    'engine/compose', 'engine/heard', 'engine/key', 'engine/state',
    'engine/post', 'engine/order', 'engine/tally', 'engine/tls_report', 'engine/worker', 'engine/trace', 'engine/outbound',
    'engine/inbound', 'engine/writer', 'engine/signer', 'engine/activator', 'engine/schedule', 'engine/feed',
    'engine/http', 'engine/census', 'engine/lane', 'engine/suppression', 'engine/nodes', 'engine/gather', 'engine/report', 'engine', 'engine/cli',
    'bench/tool', 'bench/sink', 'bench/source', 'bench/zone', 'bench/sim', 'bench/stage', 'bench',
]
# Rooms that need less than their folder may.
ROOM_NEEDS = {'engine/spool': {'base', 'engine'}}
# Modules that include each other although neither is a part of the other: all of sched/ is the one
# state machine behind sched.h; every thread reads under RCU, and what RCU retires a thread frees.
KNOTS = [re.compile(r'sched/'), re.compile(r'base/(rcu|thread)$')]
FOLDER_LIMIT = 60

# Files without thread, clock or I/O; every file of sched/ is one too.
PURE_CORES = [
    'net/smtp_client', 'net/smtp_client_auth', 'net/smtp_client_body', 'net/smtp_client_handshake',
    'net/smtp_client_idiom', 'net/smtp_client_internal', 'net/smtp_client_pipeline',
    'net/smtp_client_transaction', 'net/smtp_client_verdict', 'net/smtp_pace', 'net/smtp_server', 'net/smtp_server_auth',
    'net/smtp_server_body', 'net/smtp_server_command', 'net/smtp_server_private',
    'net/smtp_command', 'net/smtp_reply', 'net/smtp_address', 'net/smtp_text', 'net/smtp_wire',
    'net/smtp_body',
    'net/base64', 'net/mta_sts', 'net/tls_rpt', 'net/outcome', 'net/policy_record', 'net/proxy_protocol', 'net/socks5',
    'dns/dane', 'dns/dns_wire', 'dns/mx', 'dns/rrset',
    'engine/cluster/limit_share', 'engine/cluster/limit_share_text', 'engine/cluster/log_frame',
    'engine/cluster/log_prefix',
    'engine/cluster/member',
]
IMPURE_HEADER = re.compile(
    r'(pthread|threads|time|unistd|signal|poll|fcntl|netdb|semaphore|sched|ares|lmdb)\.h$'
    r'|(sys|netinet|arpa|net|linux|openssl|urcu)/')

# What an object file without thread, clock, I/O and allocator may leave to others.
PURE_SYMBOLS = set('''
    memchr memcmp memcpy memmem memmove memrchr memset strchr strcmp strlen strncmp strnlen strrchr
    strspn strcspn strstr strncasecmp strtod strtol strtoll strtoul strtoull bsearch
    snprintf vsnprintf explicit_bzero sqrt floor ceil fmax fmin
    __assert_fail __stack_chk_fail __errno_location _GLOBAL_OFFSET_TABLE_
'''.split())
# base without its threads, clocks, rings and log.
PURE_BASE = re.compile(r'(heap|slice|buf|histogram)_|hash_bytes$|hash_checksum$|err_str$|'
                       r'ip_(eq|scope)$')  # dns/ip.c prints addresses with the C library
# Calls that a sanitizer or a coverage build adds.
INSTRUMENTATION = re.compile(r'__(asan|lsan|tsan|ubsan|sanitizer|gcov|llvm)_|__start_|__stop_|'
                             r'__builtin_unreachable|__gxx_personality|__sancov')
# The cores outside sched/ own buffers and sort small arrays.
CORE_SYMBOLS = {'malloc', 'calloc', 'realloc', 'free', 'qsort'}

LINE_LIMIT = 800
MARK = re.compile(r'\b(' + '|'.join(('TO' 'DO', 'FIX' 'ME', 'X' 'XX')) + r')\b')
VAGUE_NAME = re.compile(r'^(utils?|common|misc|helpers?)\.')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


class Tree:
    def __init__(self, root):
        self.text = {}
        for room in MAY_INCLUDE:
            for folder, subfolders, names in os.walk(os.path.join(root, room)):
                subfolders[:] = [name for name in subfolders if name not in ('corpus', '__pycache__')]
                for name in names:
                    if name.endswith(('.c', '.h', '.py', '.sh', 'meson.build')):
                        path = os.path.join(folder, name)
                        with open(path, encoding='utf-8') as file:
                            self.text[os.path.relpath(path, root)] = file.read()
        self.docs = {}
        for path in ['README.md'] + [f'docs/{name}' for name in os.listdir(os.path.join(root, 'docs'))]:
            if path.endswith('.md'):
                with open(os.path.join(root, path), encoding='utf-8') as file:
                    self.docs[path] = file.read()
        self.readmes = {}
        for folder in {os.path.dirname(path) for path in self.text}:
            path = os.path.join(root, folder, 'README.md')
            if os.path.exists(path):
                with open(path, encoding='utf-8') as file:
                    self.readmes[folder] = file.read()
        self.includes = {path: INCLUDE.findall(text) for path, text in self.text.items()
                         if path.endswith(('.c', '.h'))}

    def own_includes(self, path):
        return [name for quote, name in self.includes.get(path, ()) if quote == '"']

    def closure(self, path):
        """Every file that path includes, itself first."""
        reached = [path]
        for file in reached:
            reached += [name for name in self.own_includes(file)
                        if name in self.includes and name not in reached]
        return reached

    def pure_files(self):
        cores = {core + ending for core in PURE_CORES for ending in ('.c', '.h')}
        return [path for path in self.includes if path.startswith('sched/') or path in cores]


def check_direction(tree):
    for path in tree.includes:
        room = path.split('/')[0]
        for name in tree.own_includes(path):
            target = name.split('/')[0]
            if '/' not in name or target not in MAY_INCLUDE:
                yield f'{path}: "{name}" does not start with a room'
            elif target not in MAY_INCLUDE[room]:
                yield f'{path}: {room} must not include {target} ("{name}")'


def room_of(path):
    folder = os.path.dirname(path)
    return folder if folder in ROOMS else None


def check_rooms(tree):
    for path in tree.includes:
        folder, room = path.split('/')[0], room_of(path)
        if folder in ('engine', 'bench') and room is None:
            yield f'{path}: its folder is no room of {folder}'
            continue
        for name in tree.own_includes(path):
            target = room_of(name)
            if room and target and name.split('/')[0] == folder and \
                    ROOMS.index(target) > ROOMS.index(room):
                yield f'{path}: {room} must not include {target} ("{name}")'
            if name.split('/')[0] not in ROOM_NEEDS.get(room, MAY_INCLUDE[folder]):
                yield f'{path}: {room} must not include "{name}"'


def circles(links):
    """Sets of modules that reach each other (Tarjan's components of more than one)."""
    number, low, stack, found = {}, {}, [], []

    def visit(module):
        number[module] = low[module] = len(number)
        stack.append(module)
        for other in links.get(module, ()):
            if other not in number:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], number[other])
        if low[module] == number[module]:
            circle = stack[stack.index(module):]
            del stack[stack.index(module):]
            if len(circle) > 1:
                found.append(sorted(circle))

    sys.setrecursionlimit(10000)
    for module in sorted(links):
        if module not in number:
            visit(module)
    return found


def is_family(circle):
    """A module and its private parts: one folder, and names that begin with the same word."""
    return len({re.match(r'(.*/)?[^/_]+', module)[0] for module in circle}) == 1


def check_circles(tree):
    links = {}
    for path in tree.includes:
        if path.split('/')[0] != 'tests':
            links.setdefault(path[:-2], set()).update(
                name[:-2] for name in tree.own_includes(path) if name[:-2] != path[:-2])
    for circle in circles(links):
        if not is_family(circle) and \
                not any(all(knot.match(module) for module in circle) for knot in KNOTS):
            yield f'a circle of includes: {" ".join(circle)}'


def check_folders(tree):
    count = {}
    for path in tree.text:
        if path.split('/')[0] != 'tests':
            count[os.path.dirname(path)] = count.get(os.path.dirname(path), 0) + 1
    for folder, files in count.items():
        if files > FOLDER_LIMIT:
            yield f'{folder}: {files} files, more than {FOLDER_LIMIT}'


README_HEADS = ('Thread', 'Who calls it', 'Must not', 'Begin with')
README_LINES = 20


def check_readmes(tree):
    """What a room owns, and on which thread, stands in its README.md and nowhere else."""
    names = {os.path.basename(path) for path in tree.text} | {'index.html'}
    for folder in sorted({os.path.dirname(path) for path in tree.includes}):
        text = tree.readmes.get(folder)
        if folder.split('/')[0] == 'tests':
            continue
        if text is None:
            yield f'{folder}: no README.md'
            continue
        for head in README_HEADS:
            if f'\n* **{head}**: ' not in text:
                yield f'{folder}/README.md: does not say "{head}"'
        if text.count('\n') > README_LINES:
            yield f'{folder}/README.md: more than {README_LINES} lines'
        for name in re.findall(r'`(?:[\w.]+/)*(\w+\.(?:[ch]|html))`', text):
            if name not in names:
                yield f'{folder}/README.md: there is no {name}'


def check_docs(tree):
    """Documents name files that are there, and scheduler.md has every file of sched/ in its table."""
    names = {os.path.basename(path) for path in tree.text}
    for path, text in tree.docs.items():
        for name in re.findall(r'`(?:[\w.]+/)*(\w+\.[ch])`', text):
            if name not in names:
                yield f'{path}: there is no {name}'
    table = set(re.findall(r'`([\w/]+)`', '\n'.join(
        line.split('|')[1] for line in tree.docs['docs/scheduler.md'].splitlines() if line.startswith('| `'))))
    for path in tree.includes:
        noun = re.match(r'sched/(?:place/)?([\w/]+)\.[ch]$', path)
        if noun and noun[1] not in table:
            yield f'docs/scheduler.md: {noun[1]} is not in the table of files'


def check_turned(tree):
    """The two rules above notice includes that are turned around."""
    for path, name in (('engine/spool/spool_view.c', 'engine/event/event.h'),
                       ('engine/spool/spool_view.c', 'net/stream.h'),
                       ('engine/state/settings.h', 'engine/report/reload.h'),
                       ('bench/tool/options.c', 'bench/sink/sink_options.h')):
        if not list(check_rooms(TurnedTree(tree, path, name))):
            yield f'{path} may include "{name}"'
    for path, name in (('engine/post/message.h', 'engine/post/intake.h'),
                       ('dns/lookup.h', 'dns/resolver.h')):
        if not list(check_circles(TurnedTree(tree, path, name))):
            yield f'{path} may include "{name}", which includes it'


class TurnedTree(Tree):
    """A tree with one include more."""

    def __init__(self, tree, path, name):
        if path not in tree.includes or name not in tree.includes:
            sys.exit(f'{path} or {name} is no file of this tree')
        self.text = tree.text
        self.includes = dict(tree.includes)
        self.includes[path] = self.includes[path] + [('"', name)]


def check_sched_door(tree):
    for path in tree.includes:
        if path.startswith('engine/'):
            for name in tree.own_includes(path):
                if name.startswith('sched/') and name != 'sched/sched.h' and \
                        not name.startswith('sched/limit/'):
                    yield f'{path}: "{name}" is not sched/sched.h, the door of the scheduler'


def check_pure_includes(tree):
    for path in tree.pure_files():
        for file in tree.closure(path):
            for quote, name in tree.includes[file]:
                if quote == '<' and IMPURE_HEADER.match(name):
                    yield f'{path}: <{name}>' + ('' if file == path else f' by way of {file}')


def check_urcu_door(tree):
    for path, includes in tree.includes.items():
        for _, name in includes:
            if re.match(r'urcu\b', name) and path not in ('base/rcu.c', 'base/rcu.h'):
                yield f'{path}: <{name}> belongs into base/rcu.c'


LETTER_INSIDE = re.compile(r'\boutbox_put(_patient)?\(|\bletter(->|\.)(body|number)\b')


def check_letters(tree):
    """What a letter holds is packed and unpacked in one file, by a function for each kind."""
    for path, text in tree.text.items():
        if path.startswith('engine/') and path != 'engine/post/letter.h':
            for number, line in enumerate(text.splitlines(), 1):
                if LETTER_INSIDE.search(line):
                    yield f'{path}:{number}: the inside of a letter: see engine/post/letter.h'


def check_size(tree):
    for path, text in tree.text.items():
        lines = text.count('\n')
        if path.endswith('.c') and lines > LINE_LIMIT:
            yield f'{path}: {lines} lines, more than {LINE_LIMIT}'


NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'", re.S)
DIRECTIVE = re.compile(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.M)
TERNARY_TOKEN = re.compile(r'\n\}|[\n;,?:()\[\]{}]|[=!<>]=|=')


class Brackets:
    """What stands between two brackets, up to a token of it."""

    def __init__(self):
        self.waiting = 0         # "?" of the expression that have no ":" yet
        self.has_branch = False  # the expression had a ":", so this is the last branch
        self.has_inner = False   # brackets with a ternary stand in front in the expression
        self.has_any = False     # a ternary stands somewhere between these brackets

    def end_expression(self):
        self.waiting, self.has_branch, self.has_inner = 0, False, False

    def is_within(self):
        return self.waiting > 0 or self.has_branch


def scan_ternaries(code, line):
    """Numbers of the lines with a "?" in the condition or in a branch of another one."""
    lines, levels = [], [Brackets()]
    for token in TERNARY_TOKEN.findall(code):
        line += token.count('\n')
        if token == '\n}':  # a function ends, whatever brackets #if and #else have left open
            levels = [Brackets()]
        elif token in '([{':
            levels.append(Brackets())
        elif token in ')]}' and len(levels) > 1:
            inner = levels.pop()
            if token == '}' and not levels[-1].is_within():
                levels[-1].end_expression()
            else:
                levels[-1].has_inner |= inner.has_any
            levels[-1].has_any |= inner.has_any
        elif token == ';' or (token == ',' and levels[-1].waiting == 0):
            levels[-1].end_expression()
        elif token == '=':  # what is assigned to is no condition
            levels[-1].has_inner = False
        elif token == '?':
            if levels[-1].has_inner or any(level.is_within() for level in levels):
                lines.append(line)
            levels[-1].waiting += 1
            levels[-1].has_any = True
        elif token == ':' and levels[-1].waiting > 0:  # no label, case or bit field
            levels[-1].waiting -= 1
            levels[-1].has_branch = True
    return lines


def nested_ternaries(text):
    code = NOT_CODE.sub(lambda match: 'x' + '\n' * match[0].count('\n'), text)
    lines = scan_ternaries(DIRECTIVE.sub(lambda match: '\n' * match[0].count('\n'), code), 1)
    for match in DIRECTIVE.finditer(code):  # the text of each macro is an expression of its own
        lines += scan_ternaries(match[0], code.count('\n', 0, match.start()) + 1)
    return lines


def check_ternaries(tree):
    for path in tree.includes:
        if path.split('/')[0] != 'tests':
            for line in nested_ternaries(tree.text[path]):
                yield f'{path}:{line}: a ternary inside a ternary'


NESTED_TERNARIES = [
    'x = a ? b : c ? d : e;',
    'x = a ? b ? c : d : e;',
    'x = (a ? b : c) ? d : e;',
    'return f(a ? b : c, 1) > 0\n    ? d : e;',
    'return a ? b : 1 + (c ? d : e);',
    'f(x, a ? g(y, b ? c : d) : e);',
    'x[a ? b : c] = d ? (struct s){.y = e ? 1 : 2} : f;',
    "x = c == '?' ? 1 : c == ':' ? 2 : 3;",
    'x = a ? "\\"" : /* "? */ b ? "//" : c;',
    'case 3: x = a ? b : c ?: d;',
    '#define F(a) ((a) ? 1 : \\\n    (b) ? 2 : 3)',
]
PLAIN_TERNARIES = [
    'x = a ? b : c; y = d ? e : f;',
    'x[a ? b : c] = d ? e : f;',
    'x = (a ? b : c) + (d ? e : f) + g(h ? i : j, k ? l : m);',
    'struct s { unsigned a : 1, b : 2; }; x = a ? b : c;',
    'switch (a ? b : c) { case 1: x = d ? e : f; break; default: x = g ? h : i; }',
    'if (f(a ? b : c)) { x = d ? e : f; } y = g ? h : i;',
    'struct s x = {.a = b ? c : d, .e = f ? g : h}; y = i ? j : k;',
    'again: x = a ? "? b : c ? d" : e; /* f ? g : h ? i : j */ // k ? l : m ? n : o',
    'x = a ? \'?\' : \'"\'; y = b ? \'\\\'\' : c;',
    '#define F(a) ((a) ? 1 : 2)\n#define G(a) (a) ? 1 : 2\nx = a ? b : c;',
]


def check_noticed_ternaries(tree):
    """The rule above tells nested from plain, and sees into the last function of every file."""
    for text in NESTED_TERNARIES:
        if len(nested_ternaries(text)) != 1:
            yield f'not noticed: {text}'
    for text in PLAIN_TERNARIES:
        if nested_ternaries(text):
            yield f'taken for nested: {text}'
    for path, text in tree.text.items():
        before, opening, body = text.rpartition('\n{\n')
        if path.endswith('.c') and opening and path.split('/')[0] != 'tests':
            planted = f'{before}{opening}    x = a ? b : c ? d : e;\n{body}'
            if before.count('\n') + 3 not in nested_ternaries(planted):
                yield f'{path}: not noticed in its last function'


PARAMETER_LIMIT = 6
FUNCTION = re.compile(r'^(static )?(?:[A-Za-z_][\w \n*]*[ \n*])(\w+)\(', re.M)
# Signatures that libraries prescribe.
PRESCRIBED = {'on_request',  # libmicrohttpd, MHD_AccessHandlerCallback
              'bound_reads'}  # OpenSSL, BIO_callback_fn_ex


def without_text(text):
    """Code as it stands, but for comments, strings and directives; lines stay where they are."""
    code = NOT_CODE.sub(lambda match: 'x' + '\n' * match[0].count('\n'), text)
    return DIRECTIVE.sub(lambda match: '\n' * match[0].count('\n'), code)


def functions(code):
    """(name, parameters, whether it is static, whether it is defined here) of every function."""
    for match in FUNCTION.finditer(code):
        depth, end, parameters = 1, match.end(), ['']
        while depth and end < len(code):
            depth += (code[end] in '([{') - (code[end] in ')]}')
            if code[end] == ',' and depth == 1:
                parameters.append('')
            elif depth:
                parameters[-1] += code[end]
            end += 1
        named = [one for one in parameters if one.strip() not in ('', '...', 'void')]
        yield match[2], len(named), bool(match[1]), re.match(r'[\w\s()>-]*\{', code[end:]) is not None


def check_parameters(tree):
    for path in tree.includes:
        for name, count, _, _ in functions(without_text(tree.text[path])):
            if count > PARAMETER_LIMIT and name not in PRESCRIBED:
                yield f'{path}: {name} has {count} parameters; a struct can carry them'


def static_homes(texts):
    """{name of a static function: files that define one}"""
    homes = {}
    for path, text in texts:
        for name, _, is_static, is_defined in functions(without_text(text)):
            if is_static and is_defined:
                homes.setdefault(name, set()).add(path)
    return homes


def check_static_names(tree):
    texts = [(path, tree.text[path]) for path in tree.includes if path.split('/')[0] != 'tests']
    for name, homes in static_homes(texts).items():
        if len(homes) > 2:
            yield f'{name} is a static function of {", ".join(sorted(homes))}: no trace tells which'


PARAMETER_SAMPLES = {
    'int f(int a, int b, int c, int d, int e, int f, int g);': ('f', 7, False, False),
    'static struct s *\nf(int a[static 3], int (*b)(int, int), const char *c, ...)\n{': ('f', 3, True, True),
    'MUST_USE inline bool f(void) ON_SCHED\n{': ('f', 0, False, True),
    'static void f(int a /* , b */, char *c) NONNULL(1)\n{': ('f', 2, True, True),
    'static int f(struct http *h) ON_ROLE(h->post)\n{': ('f', 1, True, True),
}


def check_noticed_functions(tree):
    """The two rules above see functions as they are written, in every file."""
    for text, expected in PARAMETER_SAMPLES.items():
        if list(functions(without_text(text))) != [expected]:
            yield f'read as {list(functions(without_text(text)))}: {text}'
    for path, text in tree.text.items():
        if path.endswith('.c'):
            planted = text + '\nstatic void planted(int a, int b, int c, int d, int e, int f, int g)\n{\n}\n'
            if ('planted', 7, True, True) not in functions(without_text(planted)):
                yield f'{path}: not noticed at its end'


def check_marks(tree):
    for path, text in tree.text.items():
        for number, line in enumerate(text.splitlines(), 1):
            if MARK.search(line):
                yield f'{path}:{number}: a mark of unfinished work'


def check_names(tree):
    for path in tree.text:
        if VAGUE_NAME.match(os.path.basename(path)):
            yield f'{path}: names no noun'


def check_guards(tree):
    owner = {}
    for path, text in tree.text.items():
        if not path.endswith('.h'):
            continue
        directives = re.findall(r'^\s*#\s*(.*\S)', text, re.M)
        guard = re.match(r'ifndef (\w+)$', directives[0]) if directives else None
        if guard is None or directives[1] != f'define {guard[1]}' or directives[-1] != 'endif':
            yield f'{path}: no include guard around everything'
        elif guard[1] in owner:
            yield f'{path}: include guard {guard[1]} is that of {owner[guard[1]]}'
        else:
            owner[guard[1]] = path


# What engine.config, the configuration of the start, is read for beside single options that only a
# restart changes: sections of which that is true as a whole, and names and numbers of others.
OF_THE_START = {'path', 'spool', 'dns', 'cluster', 'http_doors', 'http_door_count', 'webhooks', 'webhook_count',
                'csvs', 'csv_count', 'listener_count', 'listeners[].name', 'listeners[].bind',
                'transport_count', 'transports[].name',
                'transports[].sched.process_limit'}  # first room; more is made when it grows
START_OPTION = re.compile(r'\b(?:START|SMTP_START)\(([\w.]+)\)|'
                          r'AT_START,\s*offsetof\(struct config, ([\w.]+)\)')
START_CONFIG = re.compile(r'\b(?:e|engine|\w+->engine)->config\b')


def check_start_config(tree):
    """engine.config is what the daemon started with; what a reload changes is read in settings."""
    options = START_OPTION.findall(tree.text['engine/config/config_option.c'])
    allowed = OF_THE_START | {name.removeprefix('smtp.') for pair in options for name in pair if name}
    for path, text in tree.text.items():
        if not re.match(r'engine/(\w+/)?\w+\.c$', path):
            continue
        for function in re.split(r'^}', text, flags=re.M):
            names = re.findall(rf'\*(\w+) = {START_CONFIG.pattern};', function)
            reads = '|'.join([START_CONFIG.pattern, *(rf'\b{name}\b' for name in names)])
            for field in re.findall(rf'(?:{reads})->((?:[\w.]|\[[^]]*\])+)', function):
                field = re.sub(r'\[[^]]*\]', '[]', field)
                if not {field, re.split(r'[.\[]', field)[0]} & allowed:
                    yield f'{path}: {field} of the start, which a reload changes: see settings.h'


def symbols(library):
    """{member: (defined, undefined)} of a static library."""
    output = subprocess.run(['nm', '-A', '-P', library], check=True, capture_output=True,
                            text=True).stdout
    members = {}
    for line in output.splitlines():
        place, name, kind = line.rsplit(': ', 1)[0], *line.rsplit(': ', 1)[1].split()[:2]
        member = re.sub(r'\.o$', '', os.path.basename(re.search(r'\[(.*)\]$', place)[1]))
        defined, undefined = members.setdefault(member, (set(), set()))
        if kind in 'Uwv':
            undefined.add(name)
        elif kind.isupper():
            defined.add(name)
    return members


def check_symbols(room, library):
    members = symbols(library)
    if not members:
        yield f'{library}: no symbols read'
    cores = {f'{os.path.basename(core)}.c' for core in PURE_CORES if core.startswith(room + '/')}
    # Objects of a subfolder are named folder_file.c.
    pure = [member for member in members if room == 'sched' or member in cores]
    own = set().union(*(members[member][0] for member in pure))
    allowed = PURE_SYMBOLS | own | (set() if room == 'sched' else CORE_SYMBOLS)
    for member in pure:
        for name in sorted(members[member][1] - allowed):
            if not PURE_BASE.match(name) and not INSTRUMENTATION.match(name):
                yield f'{room}/{member}: {name} is not on the list of what a pure core may call'


def check_calls_up(libraries):
    """libraries: {room: library}. The linker would find what stands in any room."""
    rooms = [room for room in ROOMS if room in libraries]
    seen = {room: symbols(libraries[room]) for room in rooms}
    home = {name: room for room in rooms for defined, _ in seen[room].values() for name in defined}
    if len(rooms) < 2:
        yield 'no libraries of rooms were named'
    for room in rooms:
        for member, (_, undefined) in seen[room].items():
            for name in sorted(undefined):
                if ROOMS.index(home.get(name, room)) > ROOMS.index(room):
                    yield f'{room}/{member}: {name} stands above it, in {home[name]}'


def main():
    tree = Tree(sys.argv[1])
    rules = [
        ('rooms include only rooms below them', check_direction(tree)),
        ('rooms within a folder include only rooms below them', check_rooms(tree)),
        ('no circle of includes but within a module', check_circles(tree)),
        ('includes that are turned around are noticed', check_turned(tree)),
        ('every folder of C files has a README.md that says what it owns', check_readmes(tree)),
        ('documents name the files that are there', check_docs(tree)),
        (f'no folder has more than {FOLDER_LIMIT} files', check_folders(tree)),
        ('engine enters sched by sched/sched.h, or its limits', check_sched_door(tree)),
        ('pure cores include no thread, clock or I/O', check_pure_includes(tree)),
        ('only base/rcu includes liburcu', check_urcu_door(tree)),
        ('letters are put and taken by the functions of their kinds', check_letters(tree)),
        (f'no source file has more than {LINE_LIMIT} lines', check_size(tree)),
        ('no ternary inside a ternary', check_ternaries(tree)),
        ('a ternary inside a ternary is noticed', check_noticed_ternaries(tree)),
        (f'no function has more than {PARAMETER_LIMIT} parameters', check_parameters(tree)),
        ('no static function has the name of two others', check_static_names(tree)),
        ('functions are noticed', check_noticed_functions(tree)),
        ('no marks of unfinished work', check_marks(tree)),
        ('file names are nouns', check_names(tree)),
        ('every header has its own include guard', check_guards(tree)),
        ('options that a reload changes are read in the settings', check_start_config(tree)),
    ]
    libraries = dict(argument.split('=', 1) for argument in sys.argv[2:])
    for room in [room for room in libraries if room not in ROOMS]:
        rules.append((f'pure cores of {room} call nothing outside the list',
                      check_symbols(room, libraries[room])))
    if libraries:
        rules.append(('rooms call nothing that stands above them', check_calls_up(libraries)))
    print(f'1..{len(rules)}')
    failed = False
    for number, (rule, faults) in enumerate(rules, 1):
        faults = list(faults)
        failed |= bool(faults)
        print(f'{"not ok" if faults else "ok"} {number} - {rule}')
        for fault in faults:
            print(f'# {fault}')
    if not tree.includes:
        sys.exit('no sources found')
    sys.exit(failed)


main()
