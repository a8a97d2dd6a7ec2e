"""What the users of mixed.py do: operations of which it is known what they are, and others that look like them.

Each gives the keys that it asked for (what a report calls its fan-out) and the requests that it sent. `../go/mixed` has the same operations,
and `../sequences/data.rs` their tables and rows.
"""

import datetime

# As `../sequences/data.rs` fills the tables.
GROUPS, EMAILS, WORDS, NAMES, BUCKETS = 60, 300, 60, 40, 6
ITEMS, LISTS, TOPICS, ARTICLES, USERS = 200, 40, 50, 300, 10
PRODUCTS, CATEGORIES, DATES = 400, 32, 60
TODAY = datetime.date(2026, 2, 16)
STATES = ("open", "done", "late")
# Rows that a reader of days wants.
WANTED = 10

STATEMENTS = {
    "members": "SELECT user_id FROM {k}.members WHERE groupname = ?",
    "user": "SELECT name FROM {k}.users WHERE id = ?",
    "team": "SELECT player FROM {k}.teams WHERE name = ?",
    "player": "SELECT name FROM {k}.players WHERE id = ?",
    "basket": "SELECT product FROM {k}.baskets WHERE id = ?",
    "products": "SELECT title FROM {k}.products WHERE id IN ?",
    "playlist": "SELECT song FROM {k}.playlists WHERE name = ?",
    "song": "SELECT title FROM {k}.songs WHERE id = ?",
    "email": "SELECT id FROM {k}.emails WHERE email = ?",
    "account": "SELECT name FROM {k}.accounts WHERE id = ?",
    "word": "SELECT document FROM {k}.words WHERE word = ?",
    "document": "SELECT part FROM {k}.documents WHERE id = ?",
    "part": "SELECT text FROM {k}.parts WHERE id = ?",
    "bucket": "SELECT at FROM {k}.bucketed WHERE name = ? AND bucket = ?",
    "day": "SELECT at FROM {k}.daily WHERE name = ? AND day = ? LIMIT 10",
    "text day": "SELECT at FROM {k}.daily_text WHERE name = ? AND day = ? LIMIT 10",
    "by phone": "INSERT INTO {k}.by_phone (phone, id, name, town) VALUES (?, ?, ?, ?)",
    "by name": "INSERT INTO {k}.by_name (name, id, phone, town) VALUES (?, ?, ?, ?)",
    "order of user": "INSERT INTO {k}.orders_by_user (who, id, item) VALUES (?, ?, ?)",
    "order of day": "INSERT INTO {k}.orders_by_day (day, id, who, item) VALUES (?, ?, ?, ?)",
    "cart": "INSERT INTO {k}.carts (who, item, title) VALUES (?, ?, ?)",
    "put in stock": "INSERT INTO {k}.stock (item, pieces, place) VALUES (?, ?, ?)",
    "item": "SELECT title FROM {k}.items WHERE id = ?",
    "likes": "SELECT who, name FROM {k}.likes WHERE item = ?",
    "list": "SELECT item FROM {k}.lists WHERE name = ?",
    "stock": "SELECT pieces, place FROM {k}.stock WHERE item = ?",
    "topic": "SELECT item, state FROM {k}.news WHERE topic = ?",
    "article": "SELECT title FROM {k}.articles WHERE id = ?",
    "state": "SELECT item FROM {k}.by_state WHERE state = ?",
    "offer": "SELECT category, added, sold FROM {k}.offers WHERE id = ?",
    "category": "SELECT id FROM {k}.by_category WHERE category = ?",
    "added": "SELECT id FROM {k}.by_date WHERE added = ?",
    "sold": "SELECT id FROM {k}.by_sale WHERE sold = ?",
    "history": "SELECT item FROM {k}.history WHERE who = ?",
    "range": "SELECT id, title FROM {k}.articles WHERE token(id) > ? AND token(id) <= ?",
    "save": "INSERT INTO {k}.saved (who, id, item) VALUES (?, ?, ?)",
}


def popular(random, end):
    """From 0 to below `end`, the lower ones more often: as words are, by Zipf's law."""
    return min(int(end ** random.random()) - 1, end - 1)


def sends(*statements):
    """Notes which statements an operation sends."""

    def noted(operation):
        operation.STATEMENTS = statements
        return operation

    return noted


@sends("members", "user")
def join_one_by_one(shop, random, _):
    """A group, and its members one after the other."""
    rows = shop.ask("members", f"group-{popular(random, GROUPS)}")
    for (user,) in rows:
        shop.ask("user", user)
    return len(rows), 1 + len(rows)


@sends("team", "player")
def join_at_once(shop, random, _):
    """The same, at once."""
    rows = shop.ask("team", f"team-{popular(random, GROUPS)}")
    shop.ask_all("player", rows)
    return len(rows), 1 + len(rows)


@sends("basket", "products")
def join_by_list(shop, random, _):
    """The same, in one request."""
    rows = shop.ask("basket", popular(random, GROUPS))
    shop.ask("products", [product for (product,) in rows])
    return len(rows), 2


@sends("playlist", "song")
def join_with_cache(shop, random, _):
    """The same, where a third is in a cache."""
    rows = shop.ask("playlist", f"list-{popular(random, GROUPS)}")
    missing = [song for at, (song,) in enumerate(rows) if at % 3]
    for song in missing:
        shop.ask("song", song)
    return len(missing), 1 + len(missing)


@sends("email", "account")
def lookup(shop, random, _):
    """The key of an account by its e-mail address, and then the account."""
    rows = shop.ask("email", f"{popular(random, EMAILS)}@example.org")
    for row in rows:
        shop.ask("account", *row)
    return len(rows), 1 + len(rows)


@sends("word", "document", "part")
def chain(shop, random, _):
    """Documents by a word, their parts, and the text of each."""
    keys, requests = 0, 1
    for (document,) in shop.ask("word", f"word-{popular(random, WORDS)}"):
        parts = shop.ask("document", document)
        for part in parts:
            shop.ask("part", *part)
        keys, requests = keys + len(parts), requests + 1 + len(parts)
    return keys, requests


@sends("bucket")
def buckets(shop, random, _):
    """All buckets of a name."""
    name = f"name-{popular(random, NAMES)}"
    shop.ask_all("bucket", [(name, bucket) for bucket in range(BUCKETS)])
    return BUCKETS, BUCKETS


@sends("day")
def days_back(shop, random, _):
    """Days back until there are rows enough."""
    return back(shop, "day", f"name-{popular(random, NAMES)}", lambda day: day)


@sends("text day")
def text_days_back(shop, random, _):
    """The same, where days are texts."""
    return back(shop, "text day", f"name-{popular(random, NAMES)}", str)


def back(shop, statement, name, shown):
    rows, days = 0, 0
    while rows < WANTED:
        rows += len(shop.ask(statement, name, shown(TODAY - datetime.timedelta(days=days))))
        days += 1
    return days, days


@sends("by phone", "by name")
def two_tables(shop, random, _):
    """A person in two tables, one after the other; in one of fifty cases the second is left out."""
    person = random.getrandbits(62)
    name, phone = f"person {person}", f"+49 {person}"
    shop.ask("by phone", phone, person, name, "berlin")
    if random.random() < 0.02:
        return 1, 1
    shop.ask("by name", name, person, phone, "berlin")
    return 2, 2


@sends("order of user", "order of day", "cart", "put in stock")
def orders(shop, random, _):
    """An order in its two tables, in one logged batch; and a cart, whose stock is another row of other values."""
    order, who, item = random.getrandbits(62), popular(random, 5000), 9_000_000 + random.randrange(LISTS * 20)
    shop.batch(("order of user", (who, order, "item")), ("order of day", (TODAY, order, who, "item")))
    shop.ask("cart", who, item, f"title {item}")
    shop.ask("put in stock", item, random.randrange(1000), "shelf")
    return 0, 3


@sends("item", "likes")
def page_of_an_item(shop, random, _):
    """Two reads by the same key, at once."""
    item = popular(random, ITEMS)
    for future in [shop.send("item", item), shop.send("likes", item)]:
        future.result()
    return 0, 2


@sends("list", "stock")
def click(shop, random, come_back):
    """A list of twenty, on one of which somebody clicks some seconds later."""
    rows = shop.ask("list", f"list-{popular(random, LISTS)}")
    come_back("stock", random.choice(rows)[0])
    return 0, 1


@sends("topic", "article", "state")
def news(shop, random, _):
    """News of a topic, an article, or a state; popular articles are in all topics, and states are in rows."""
    what = random.randrange(3)
    if what == 0:
        shop.ask("topic", f"topic-{random.randrange(TOPICS)}")
    elif what == 1:
        shop.ask("article", 7_000_000 + popular(random, ARTICLES))
    else:
        shop.ask("state", random.choice(STATES))
    return 0, 1


@sends("offer", "category", "added", "sold")
def categories(shop, random, _):
    """An offer, or those of a category, of a day, or those that are sold: numbers, dates and booleans come back by chance."""
    what = random.randrange(4)
    if what == 0:
        shop.ask("offer", random.randrange(PRODUCTS))
    elif what == 1:
        shop.ask("category", popular(random, CATEGORIES))
    elif what == 2:
        shop.ask("added", TODAY - datetime.timedelta(days=popular(random, DATES)))
    else:
        shop.ask("sold", random.random() < 0.5)
    return 0, 1


@sends("history")
def pages(shop, random, _):
    """A read in pages."""
    _, requests = shop.pages("history", random.randrange(USERS), page=25)
    return 0, requests


@sends("range")
def sweep(shop, _random, _):
    """All articles, by pieces of the ring."""
    ends = [-(2**63) + at * 2**60 for at in range(16)] + [2**63 - 1]
    for start, end in zip(ends, ends[1:]):
        shop.ask("range", start, end)
    return 0, len(ends) - 1


@sends("save", "account", "item")
def again(shop, random, _):
    """A write and two reads that are sent again, as clients do that do not wait for an answer any longer."""
    values = (popular(random, 5000), random.getrandbits(62), "item")
    account, item = 1_000_000 + random.randrange(EMAILS), random.randrange(ITEMS)
    for _ in range(2):
        shop.ask("save", *values)
        shop.ask("account", account)
    shop.ask_all("item", [(item,), (item,)])
    return 0, 6


# By name: what is done, what a report calls it (nothing where it is to be silent), and the tables.
OPERATIONS = {
    "join-one-by-one": (join_one_by_one, "client-join", ("members", "users")),
    "join-at-once": (join_at_once, "client-join", ("teams", "players")),
    "join-by-list": (join_by_list, "client-join", ("baskets", "products")),
    "join-with-cache": (join_with_cache, "client-join", ("playlists", "songs")),
    "lookup": (lookup, "index-table-lookup", ("emails", "accounts")),
    "chain": (chain, "client-join", ("words", "documents", "parts")),
    "buckets": (buckets, "bucket-fan-out", ("bucketed",)),
    "days": (days_back, "time-bucket-walk", ("daily",)),
    "text-days": (text_days_back, "time-bucket-walk", ("daily_text",)),
    "copies": (two_tables, "dual-write-without-batch", ("by_phone", "by_name")),
    "orders": (orders, None, ("orders_by_user", "orders_by_day", "carts", "stock")),
    "page": (page_of_an_item, None, ("items", "likes")),
    "click": (click, None, ("lists", "stock")),
    "news": (news, None, ("news", "articles", "by_state")),
    "categories": (categories, None, ("offers", "by_category", "by_date", "by_sale")),
    "pages": (pages, None, ("history",)),
    "sweep": (sweep, None, ("articles",)),
    "again": (again, None, ("saved", "accounts", "items")),
}
