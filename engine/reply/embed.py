"""The shipped rules as a C array.

usage: embed.py REPLIES.conf INSTALLED_PATH OUTPUT.c
"""
import pathlib
import sys


def main():
    text = pathlib.Path(sys.argv[1]).read_bytes()
    rows = [', '.join(str(byte) for byte in text[i:i + 24]) for i in range(0, len(text), 24)]
    pathlib.Path(sys.argv[3]).write_text(
        '#include "engine/reply/reply_shipped.h"\n\n'
        f'const char reply_shipped_path[] = "{sys.argv[2]}";\n'
        'const unsigned char reply_shipped_bytes[] = {\n' + ',\n'.join(rows) + '};\n'
        'const size_t reply_shipped_size = sizeof(reply_shipped_bytes);\n', encoding='ascii')


main()
