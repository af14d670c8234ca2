"""libsluice: a program with the engine inside, linked as a program outside would be."""
import os
import re
import subprocess

import pytest

from support.daemon import BUILD
from support.wait import PATIENCE, until

HERE = os.path.dirname(os.path.abspath(__file__))
EMBED = os.path.join(BUILD, 'tests', 'embed', 'embed')
SOURCE = os.path.join(HERE, '..', 'embed', 'embed.c')


def refuse_nobody(verb, argument, session):
    return '550 5.1.1 no such user' if verb == 'RCPT' and 'nobody' in argument else None


def run(program, *args, **settings):
    return subprocess.run([program, *args], capture_output=True, text=True, timeout=2 * PATIENCE,
                          check=False, **settings)


@pytest.fixture
def receiver(place):
    return place.receiver(answers=refuse_nobody)


@pytest.fixture
def daemon(place, receiver):
    """Of the configuration that programs have; it does not run."""
    return place.sluice(start=False, options={'allow_loopback': True},
                        routes={'*': ('smtp', f'[127.0.0.1]:{receiver.port}')})


@pytest.fixture
def config(daemon, receiver):
    """(path of a configuration, receiver)"""
    return daemon.config_path, receiver


def test_mail_goes_out_and_the_program_hears_of_it(config, daemon):
    path, receiver = config
    done = run(EMBED, path, 'program@embed.test', 'one@there.test', 'nobody@there.test')
    assert done.returncode == 0, done.stderr
    assert re.search(r'^Delivery [0-9a-f]{16} <one@there.test> 250 ', done.stdout, re.M), done.stdout
    assert re.search(r'^Bounce [0-9a-f]{16} <nobody@there.test> 550 5\.1\.1 .*no such user', done.stdout, re.M)
    assert re.search(r'^counts: 200 \{', done.stdout, re.M)
    assert done.stdout.endswith('1 delivered, 1 failed\n')
    [message] = receiver.to('one@there.test')
    assert message.sender == 'program@embed.test'
    assert b'This program has a mail engine inside.\r\n' in message.body
    daemon.start()  # the program does not wait for the notice of the bounce, which may be left in the spool
    until(lambda: receiver.to('program@embed.test'), 'the notice of the bounce')


def test_it_starts_again_on_the_same_spool(config):
    path, receiver = config
    for number in range(3):
        done = run(EMBED, path, 'program@embed.test', f'again{number}@there.test')
        assert done.returncode == 0, done.stderr
    assert len(receiver.wait(3)) == 3


def test_what_is_wrong_is_said(config, place):
    path, _ = config
    done = run(EMBED, path, 'program@embed.test', 'no address')
    assert done.returncode == 75 and 'was not accepted: ' in done.stderr, done.stderr
    broken = os.path.join(place.folder, 'broken.conf')
    with open(broken, 'w', encoding='utf-8') as file:
        file.write('workerz = 2\n')
    done = run(EMBED, broken, 'a@b.test', 'c@d.test')
    assert done.returncode == 69
    assert 'does not start: ' in done.stderr and 'broken.conf:1: workerz' in done.stderr


def test_a_spool_in_use_is_not_touched(config, place):
    path, _ = config
    holder = place.sluice(start=False)
    holder.config_path = path
    holder.start()
    done = run(EMBED, path, 'a@b.test', 'c@d.test')
    assert done.returncode == 69 and 'does not start: ' in done.stderr, done.stderr
    assert holder.is_alive()


def test_it_builds_against_the_installed_library(config, place):
    path, receiver = config
    root = os.path.join(place.folder, 'root')
    done = run('meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', root)
    assert done.returncode == 0, done.stderr
    [pkgconfig] = [folder for folder, _, files in os.walk(root) if 'sluice.pc' in files]
    environment = {**os.environ, 'PKG_CONFIG_PATH': pkgconfig, 'PKG_CONFIG_SYSROOT_DIR': root}
    flags = run('pkg-config', '--cflags', '--libs', 'sluice', env=environment)
    assert flags.returncode == 0, flags.stderr
    program = os.path.join(place.folder, 'embed')
    libraries = os.path.dirname(pkgconfig)
    done = run('cc', '-Wall', '-Wextra', '-Werror', SOURCE, '-o', program, '-pthread', *flags.stdout.split())
    assert done.returncode == 0, done.stderr
    done = run(program, path, 'program@embed.test', 'installed@there.test',
               env={**os.environ, 'LD_LIBRARY_PATH': libraries})
    assert done.returncode == 0, done.stderr
    assert receiver.to('installed@there.test')


def test_only_its_own_names_are_visible():
    library = os.path.join(BUILD, 'engine', 'libsluice.so')
    names = run('nm', '-D', '--defined-only', library).stdout.split()[2::3]
    assert sorted(names) == ['sluice_call', 'sluice_send', 'sluice_start', 'sluice_stop', 'sluice_submit']
