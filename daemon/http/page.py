"""Writes http_page.inc to stdout: the page as an array, and the policy that lets its own script and
style run and nothing else, by their digests.

    http_page.py http_page.html >http_page.inc
"""
import base64
import hashlib
import re
import sys


def digests(page, tag):
    found = re.findall(rb"<%s>(.*?)</%s>" % (tag, tag), page, re.S)
    return " ".join("'sha256-%s'" % base64.b64encode(hashlib.sha256(text).digest()).decode()
                    for text in found)


def main():
    with open(sys.argv[1], "rb") as file:
        page = file.read()
    policy = "; ".join([
        "default-src 'none'", "script-src " + digests(page, b"script"),
        "style-src " + digests(page, b"style"), "connect-src 'self'", "img-src data:",
        "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"])
    print(f'#define PAGE_CONTENT_SECURITY_POLICY "{policy}"')
    print("static const unsigned char page_html[] = {")
    for at in range(0, len(page), 20):
        print("\t" + "".join(f"{byte}," for byte in page[at:at + 20]))
    print("};")


main()
