package main

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// As ../../sequences/data.rs fills the tables.
const (
	groups, emails, words, names, buckets           = 60, 300, 60, 40, 6
	items, lists, topics, articles, customers       = 200, 40, 50, 300, 10
	offers, categories, dates                       = 400, 32, 60
	firstAccount, firstArticle, firstItem     int64 = 1_000_000, 7_000_000, 9_000_000

	// Rows that a reader of days wants.
	wanted = 10
)

var (
	today  = time.Date(2026, 2, 16, 0, 0, 0, 0, time.UTC)
	states = []string{"open", "done", "late"}
)

// An operation gives the keys that it asked for (what a report calls its fan-out) and the requests that it sent.
type operation struct {
	do func(*user) (int, int)
	// What a report calls it; nothing where it is to be silent.
	kind   string
	tables []string
}

// The same as in ../../python/mixed_operations.py.
var operations = map[string]operation{
	"join-one-by-one": {joinOneByOne, "client-join", []string{"members", "users"}},
	"join-at-once":    {joinAtOnce, "client-join", []string{"teams", "players"}},
	"join-by-list":    {joinByList, "client-join", []string{"baskets", "products"}},
	"join-with-cache": {joinWithCache, "client-join", []string{"playlists", "songs"}},
	"lookup":          {lookup, "index-table-lookup", []string{"emails", "accounts"}},
	"chain":           {chain, "client-join", []string{"words", "documents", "parts"}},
	"buckets":         {allBuckets, "bucket-fan-out", []string{"bucketed"}},
	"days":            {daysBack, "time-bucket-walk", []string{"daily"}},
	"text-days":       {textDaysBack, "time-bucket-walk", []string{"daily_text"}},
	"copies":          {twoTables, "dual-write-without-batch", []string{"by_phone", "by_name"}},
	"orders":          {orders, "", []string{"orders_by_user", "orders_by_day", "carts", "stock"}},
	"page":            {pageOfAnItem, "", []string{"items", "likes"}},
	"click":           {click, "", []string{"lists", "stock"}},
	"news":            {news, "", []string{"news", "articles", "by_state"}},
	"categories":      {offered, "", []string{"offers", "by_category", "by_date", "by_sale"}},
	"pages":           {pages, "", []string{"history"}},
	"sweep":           {sweep, "", []string{"articles"}},
	"again":           {again, "", []string{"saved", "accounts", "items"}},
}

func statementsIn(keyspace string) map[string]string {
	of := map[string]string{
		"members":       "SELECT user_id FROM {k}.members WHERE groupname = ?",
		"user":          "SELECT name FROM {k}.users WHERE id = ?",
		"team":          "SELECT player FROM {k}.teams WHERE name = ?",
		"player":        "SELECT name FROM {k}.players WHERE id = ?",
		"basket":        "SELECT product FROM {k}.baskets WHERE id = ?",
		"products":      "SELECT title FROM {k}.products WHERE id IN ?",
		"playlist":      "SELECT song FROM {k}.playlists WHERE name = ?",
		"song":          "SELECT title FROM {k}.songs WHERE id = ?",
		"email":         "SELECT id FROM {k}.emails WHERE email = ?",
		"account":       "SELECT name FROM {k}.accounts WHERE id = ?",
		"word":          "SELECT document FROM {k}.words WHERE word = ?",
		"document":      "SELECT part FROM {k}.documents WHERE id = ?",
		"part":          "SELECT text FROM {k}.parts WHERE id = ?",
		"bucket":        "SELECT at FROM {k}.bucketed WHERE name = ? AND bucket = ?",
		"day":           "SELECT at FROM {k}.daily WHERE name = ? AND day = ? LIMIT 10",
		"text day":      "SELECT at FROM {k}.daily_text WHERE name = ? AND day = ? LIMIT 10",
		"by phone":      "INSERT INTO {k}.by_phone (phone, id, name, town) VALUES (?, ?, ?, ?)",
		"by name":       "INSERT INTO {k}.by_name (name, id, phone, town) VALUES (?, ?, ?, ?)",
		"order of user": "INSERT INTO {k}.orders_by_user (who, id, item) VALUES (?, ?, ?)",
		"order of day":  "INSERT INTO {k}.orders_by_day (day, id, who, item) VALUES (?, ?, ?, ?)",
		"cart":          "INSERT INTO {k}.carts (who, item, title) VALUES (?, ?, ?)",
		"put in stock":  "INSERT INTO {k}.stock (item, pieces, place) VALUES (?, ?, ?)",
		"item":          "SELECT title FROM {k}.items WHERE id = ?",
		"likes":         "SELECT who, name FROM {k}.likes WHERE item = ?",
		"list":          "SELECT item FROM {k}.lists WHERE name = ?",
		"stock":         "SELECT pieces, place FROM {k}.stock WHERE item = ?",
		"topic":         "SELECT item, state FROM {k}.news WHERE topic = ?",
		"article":       "SELECT title FROM {k}.articles WHERE id = ?",
		"state":         "SELECT item FROM {k}.by_state WHERE state = ?",
		"offer":         "SELECT category, added, sold FROM {k}.offers WHERE id = ?",
		"category":      "SELECT id FROM {k}.by_category WHERE category = ?",
		"added":         "SELECT id FROM {k}.by_date WHERE added = ?",
		"sold":          "SELECT id FROM {k}.by_sale WHERE sold = ?",
		"history":       "SELECT item FROM {k}.history WHERE who = ?",
		"range":         "SELECT id, title FROM {k}.articles WHERE token(id) > ? AND token(id) <= ?",
		"save":          "INSERT INTO {k}.saved (who, id, item) VALUES (?, ?, ?)",
	}
	for name, statement := range of {
		of[name] = strings.ReplaceAll(statement, "{k}", keyspace)
	}
	return of
}

// A group, and its members one after the other.
func joinOneByOne(u *user) (int, int) {
	rows := u.shop.ask("members", fmt.Sprint("group-", u.popular(groups)))
	for _, row := range rows {
		u.shop.ask("user", row...)
	}
	return len(rows), 1 + len(rows)
}

// The same, at once.
func joinAtOnce(u *user) (int, int) {
	rows := u.shop.ask("team", fmt.Sprint("team-", u.popular(groups)))
	u.shop.askAll("player", rows)
	return len(rows), 1 + len(rows)
}

// The same, in one request.
func joinByList(u *user) (int, int) {
	rows := u.shop.ask("basket", int64(u.popular(groups)))
	var products []any
	for _, row := range rows {
		products = append(products, row[0])
	}
	u.shop.ask("products", products)
	return len(rows), 2
}

// The same, where a third is in a cache.
func joinWithCache(u *user) (int, int) {
	missing := 0
	for at, row := range u.shop.ask("playlist", fmt.Sprint("list-", u.popular(groups))) {
		if at%3 != 0 {
			u.shop.ask("song", row...)
			missing++
		}
	}
	return missing, 1 + missing
}

// The key of an account by its e-mail address, and then the account.
func lookup(u *user) (int, int) {
	rows := u.shop.ask("email", fmt.Sprintf("%d@example.org", u.popular(emails)))
	for _, row := range rows {
		u.shop.ask("account", row...)
	}
	return len(rows), 1 + len(rows)
}

// Documents by a word, their parts, and the text of each.
func chain(u *user) (int, int) {
	keys, requests := 0, 1
	for _, document := range u.shop.ask("word", fmt.Sprint("word-", u.popular(words))) {
		parts := u.shop.ask("document", document...)
		for _, part := range parts {
			u.shop.ask("part", part...)
		}
		keys, requests = keys+len(parts), requests+1+len(parts)
	}
	return keys, requests
}

// All buckets of a name.
func allBuckets(u *user) (int, int) {
	name := fmt.Sprint("name-", u.popular(names))
	var keys [][]any
	for bucket := 0; bucket < buckets; bucket++ {
		keys = append(keys, []any{name, bucket})
	}
	u.shop.askAll("bucket", keys)
	return buckets, buckets
}

// Days back until there are rows enough.
func daysBack(u *user) (int, int) {
	return back(u, "day", func(day time.Time) any { return day })
}

// The same, where days are texts.
func textDaysBack(u *user) (int, int) {
	return back(u, "text day", func(day time.Time) any { return day.Format("2006-01-02") })
}

func back(u *user, statement string, shown func(time.Time) any) (int, int) {
	name, rows, days := fmt.Sprint("name-", u.popular(names)), 0, 0
	for rows < wanted {
		rows += len(u.shop.ask(statement, name, shown(today.AddDate(0, 0, -days))))
		days++
	}
	return days, days
}

// A person in two tables, one after the other; in one of fifty cases the second is left out.
func twoTables(u *user) (int, int) {
	person := u.random.Int63() >> 1
	name, phone := fmt.Sprint("person ", person), fmt.Sprint("+49 ", person)
	u.shop.ask("by phone", phone, person, name, "berlin")
	if u.random.Intn(50) == 0 {
		return 1, 1
	}
	u.shop.ask("by name", name, person, phone, "berlin")
	return 2, 2
}

// An order in its two tables, in one logged batch; and a cart, whose stock is another row of other values.
func orders(u *user) (int, int) {
	order, who := u.random.Int63()>>1, int64(u.popular(5000))
	item := firstItem + int64(u.random.Intn(lists*20))
	batch := u.shop.session.Batch(gocql.LoggedBatch)
	batch.Query(u.shop.statements["order of user"], who, order, "item")
	batch.Query(u.shop.statements["order of day"], today, order, who, "item")
	check(batch.Exec())
	u.shop.ask("cart", who, item, fmt.Sprint("title ", item))
	u.shop.ask("put in stock", item, int64(u.random.Intn(1000)), "shelf")
	return 0, 3
}

// Two reads by the same key, at once.
func pageOfAnItem(u *user) (int, int) {
	item := int64(u.popular(items))
	var both sync.WaitGroup
	for _, statement := range []string{"item", "likes"} {
		both.Add(1)
		go func(statement string) {
			defer both.Done()
			u.shop.ask(statement, item)
		}(statement)
	}
	both.Wait()
	return 0, 2
}

// A list of twenty, on one of which somebody clicks some seconds later.
func click(u *user) (int, int) {
	rows := u.shop.ask("list", fmt.Sprint("list-", u.popular(lists)))
	u.comeBack("stock", rows[u.random.Intn(len(rows))][0])
	return 0, 1
}

// News of a topic, an article, or a state; popular articles are in all topics, and states are in rows.
func news(u *user) (int, int) {
	switch u.random.Intn(3) {
	case 0:
		u.shop.ask("topic", fmt.Sprint("topic-", u.random.Intn(topics)))
	case 1:
		u.shop.ask("article", firstArticle+int64(u.popular(articles)))
	default:
		u.shop.ask("state", states[u.random.Intn(len(states))])
	}
	return 0, 1
}

// An offer, or those of a category, of a day, or those that are sold: numbers, dates and booleans come back by chance.
func offered(u *user) (int, int) {
	switch u.random.Intn(4) {
	case 0:
		u.shop.ask("offer", u.random.Intn(offers))
	case 1:
		u.shop.ask("category", u.popular(categories))
	case 2:
		u.shop.ask("added", today.AddDate(0, 0, -u.popular(dates)))
	default:
		u.shop.ask("sold", u.random.Intn(2) == 0)
	}
	return 0, 1
}

// A read in pages.
func pages(u *user) (int, int) {
	_, requests := u.shop.pages(25, "history", int64(u.random.Intn(customers)))
	return 0, requests
}

// All articles, by pieces of the ring.
func sweep(u *user) (int, int) {
	const pieces = 16
	for at := int64(0); at < pieces; at++ {
		start, end := math.MinInt64+at<<60, int64(math.MaxInt64)
		if at+1 < pieces {
			end = math.MinInt64 + (at+1)<<60
		}
		u.shop.ask("range", start, end)
	}
	return 0, pieces
}

// A write and two reads that are sent again, as clients do that do not wait for an answer any longer.
func again(u *user) (int, int) {
	who, id := int64(u.popular(5000)), u.random.Int63()>>1
	account, item := firstAccount+int64(u.random.Intn(emails)), int64(u.random.Intn(items))
	for i := 0; i < 2; i++ {
		u.shop.ask("save", who, id, "item")
		u.shop.ask("account", account)
	}
	u.shop.askAll("item", [][]any{{item}, {item}})
	return 0, 6
}
