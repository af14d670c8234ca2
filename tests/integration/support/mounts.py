"""Mounts of a test that nothing else sees, and that are gone with its last process, however it ended. Takes root."""
import ctypes
import functools
import os
import subprocess

CLONE_NEWNS = 0x00020000  # unshare(2)


def _mount(*arguments):
    done = subprocess.run(['mount', *arguments], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode != 0 else None


@functools.cache
def make_private():
    """What this thread and all that it starts mount from now on is theirs alone.

    returns  why not; None: it is so"""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        return os.strerror(ctypes.get_errno())
    return _mount('--make-rprivate', '/')


def cover(folder):
    """An empty folder in memory over this one, until umount. returns: why not, or None"""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as refusal:
        return str(refusal)
    return make_private() or _mount('-t', 'tmpfs', 'tmpfs', folder)
