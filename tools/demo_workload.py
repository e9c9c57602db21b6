"""A shop that serves requests which it makes itself, for a minute at most: functions in Python, and the libraries in C that they call."""

import hashlib
import json
import re
import time
import zlib


class Catalogue:
    def __init__(self):
        self.items = [{"id": i, "name": f"item {i}", "price": i * 1.25, "tags": sorted(str(i))} for i in range(300)]
        self.text = json.dumps(self.items)

    def search(self, pattern):
        found = set(re.findall(pattern, self.text))
        return sorted(found, key=lambda name: name[::-1])

    def load(self):
        return json.loads(self.text)


class Cart:
    def __init__(self, items):
        self.items = items

    def total(self):
        return sum(self.discounted(item) for item in self.items)

    def discounted(self, item):
        rebate = 0.1 if item["price"] > 100 else 0.0
        return round(item["price"] * (1 - rebate), 2)


class Shop:
    def __init__(self):
        self.catalogue = Catalogue()

    def serve(self, request):
        handler = getattr(self, request)
        return self.answer(handler())

    def search(self):
        return self.catalogue.search(r"[a-z]+ \d+")

    def checkout(self):
        return [Cart(self.catalogue.load()).total() for _ in range(4)]

    def invoice(self):
        return json.dumps(self.catalogue.load(), indent=1)

    def answer(self, content):
        body = zlib.compress(json.dumps(content).encode())
        return hashlib.sha256(body * 20).hexdigest(), body


def main():
    shop = Shop()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for request in ("search", "checkout", "invoice"):
            shop.serve(request)


main()
