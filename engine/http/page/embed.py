"""The page as a C array, with a policy that lets no script run but its own.

usage: embed.py PAGE.html OUTPUT.c
"""
import base64
import hashlib
import pathlib
import re
import sys


def policy(text):
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
              for script in re.findall(r'<script>(.*?)</script>', text, re.S)]
    scripts = ' '.join(f"'sha256-{one}'" for one in hashes) or "'none'"
    return (f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
            "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'")


def main():
    page = pathlib.Path(sys.argv[1]).read_bytes()
    rows = [', '.join(str(byte) for byte in page[i:i + 24]) for i in range(0, len(page), 24)]
    pathlib.Path(sys.argv[2]).write_text(
        '#include "engine/http/page.h"\n\n'
        f'const char page_policy[] = "{policy(page.decode())}";\n'
        'const unsigned char page_bytes[] = {\n' + ',\n'.join(rows) + '};\n'
        'const size_t page_size = sizeof(page_bytes);\n', encoding='ascii')


main()
