"""Keeps the interpreter and its libraries busy with different work, for a minute at most, so that a profile has much to show."""

import hashlib
import json
import re
import time
import zlib


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def documents():
    orders = [{"id": i, "name": f"item {i}", "price": i * 1.25, "tags": sorted(str(i))} for i in range(300)]
    return json.dumps(json.loads(json.dumps(orders)), indent=1)


def words(text):
    return sorted(set(re.findall(r"[a-z]+ \d+", text)), key=lambda word: word[::-1])


end = time.monotonic() + 60
while time.monotonic() < end:
    fibonacci(18)
    text = documents()
    words(text)
    data = zlib.compress(text.encode(), 6)
    hashlib.sha256(data * 20).digest()
