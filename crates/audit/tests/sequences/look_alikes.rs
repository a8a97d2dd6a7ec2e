//! What applications do that only looks as if it belonged together.

use crate::{
    operations::{column, day, int, number, text},
    simulation::{MILLISECOND, Random, Stage, Statement, read, stage, write},
};

/// The page of an item: two reads by the same key, at once, and then its popular neighbours by themselves.
pub(crate) fn page_of_an_item(random: &mut Random) -> Vec<Stage> {
    let item = random.popular(2_000);
    let likes = (0..12).map(|like| vec![number(item * 31 % 2_000 + like), text("anna")]);
    vec![stage(vec![
        read(
            "SELECT title FROM s.items WHERE id = ?",
            vec![number(item)],
            vec![vec![text("item")]],
        ),
        read(
            "SELECT who, name FROM s.likes WHERE item = ?",
            vec![number(item)],
            likes.collect(),
        ),
    ])]
}

/// A list of twenty, of which a user clicks on one some seconds later.
pub(crate) fn click(random: &mut Random) -> Vec<Stage> {
    let list = random.popular(100);
    let items: Vec<u64> = (0..20).map(|item| 9_000_000 + list * 20 + item).collect();
    let clicked = items[random.below(20) as usize];
    vec![
        stage(vec![read(
            "SELECT item FROM s.lists WHERE name = ?",
            vec![text(format!("list-{list}"))],
            column(&items),
        )]),
        Stage {
            after: 2_000 * MILLISECOND,
            requests: vec![read(
                "SELECT pieces, place FROM s.stock WHERE item = ?",
                vec![number(clicked)],
                vec![vec![number(3), text("shelf")]],
            )],
        },
    ]
}

/// News of a topic or an article, one or the other; popular articles stand in all topics. The states that rows have
/// are read by, too.
pub(crate) fn news(random: &mut Random) -> Vec<Stage> {
    let article = |random: &mut Random| 7_000_000 + random.popular(300);
    let states = ["open", "done", "late"];
    let request = match random.below(3) {
        0 => {
            let rows = (0..15).map(|_| vec![number(article(random)), text(states[random.below(3) as usize])]);
            let rows = rows.collect();
            let topic = vec![text(format!("topic-{}", random.below(50)))];
            read("SELECT item, state FROM s.news WHERE topic = ?", topic, rows)
        }
        1 => read(
            "SELECT title FROM s.articles WHERE id = ?",
            vec![number(article(random))],
            vec![vec![text("title")]],
        ),
        _ => read(
            "SELECT item FROM s.by_state WHERE state = ?",
            vec![text(states[random.below(3) as usize])],
            column(&[1, 2, 3]),
        ),
    };
    vec![stage(vec![request])]
}

/// A profile that is shown, or changed by its owner: popular ones are both at the same time.
pub(crate) fn profiles(random: &mut Random) -> Vec<Stage> {
    let who = random.popular(200);
    vec![stage(vec![match random.below(5) {
        0 => write(
            "UPDATE s.profiles SET motto = ? WHERE who = ?",
            vec![text(format!("motto {}", random.below(1_000))), number(who)],
        ),
        _ => read(
            "SELECT motto FROM s.profiles WHERE who = ?",
            vec![number(who)],
            vec![vec![text("motto")]],
        ),
    }])]
}

/// A job that is polled until it is done, three times a second, and written by its worker.
pub(crate) fn jobs(random: &mut Random) -> Vec<Stage> {
    let id = random.next() >> 1;
    let state = || {
        read(
            "SELECT state FROM s.jobs WHERE id = ?",
            vec![number(id)],
            vec![vec![text("running")]],
        )
    };
    let later = |requests| Stage {
        after: 300 * MILLISECOND,
        requests,
    };
    let done = write(
        "UPDATE s.jobs SET state = ? WHERE id = ?",
        vec![text("done"), number(id)],
    );
    vec![
        later(vec![state()]),
        later(vec![state()]),
        later(vec![done]),
        later(vec![state()]),
    ]
}

/// Products, or those of a category, of a day, or those that are sold: of numbers, dates and booleans that come back by chance.
pub(crate) fn categories(random: &mut Random) -> Vec<Stage> {
    let category = |random: &mut Random| int(random.popular(64) + 1_000);
    let added = |random: &mut Random| day(19_500 + random.popular(1_000));
    let sold = |random: &mut Random| vec![u8::from(random.below(3) > 0)];
    let request = match random.below(4) {
        0 => read(
            "SELECT category, added, sold FROM s.products WHERE id = ?",
            vec![number(random.popular(50_000))],
            vec![vec![category(random), added(random), sold(random)]],
        ),
        1 => read(
            "SELECT id FROM s.by_category WHERE category = ?",
            vec![category(random)],
            column(&[600_001, 600_002]),
        ),
        2 => read(
            "SELECT id FROM s.by_sale WHERE sold = ?",
            vec![sold(random)],
            column(&[600_005, 600_006]),
        ),
        _ => read(
            "SELECT id FROM s.by_date WHERE added = ?",
            vec![added(random)],
            column(&[600_003, 600_004]),
        ),
    };
    vec![stage(vec![request])]
}

/// A table as a whole, range by range; and a row of it for another user.
pub(crate) fn sweeps(random: &mut Random) -> Vec<Stage> {
    let ids: Vec<u64> = (0..20).map(|_| 800_000 + random.popular(200)).collect();
    let from = random.next() >> 1;
    let range = read(
        "SELECT id FROM s.exported WHERE token(id) > ? AND token(id) <= ?",
        vec![number(from), number(from + 1_000)],
        column(&ids),
    );
    let row = read(
        "SELECT title FROM s.exported WHERE id = ?",
        vec![number(800_000 + random.popular(200))],
        vec![vec![text("title")]],
    );
    vec![stage(vec![range]), stage(vec![row])]
}

/// The day of a sensor, which is one partition; and a dashboard of the same day of several sensors.
pub(crate) fn sensors(random: &mut Random) -> Vec<Stage> {
    let of_sensor = |sensor: u64, days: u64| {
        read(
            "SELECT at FROM s.sensors WHERE sensor = ? AND day = ?",
            vec![int(sensor), day(days)],
            column(&[1, 2]),
        )
    };
    match random.below(3) {
        0 => {
            let mut sensors: Vec<u64> = (0..10).map(|_| random.below(400)).collect();
            sensors.dedup();
            vec![stage(
                sensors.iter().map(|sensor| of_sensor(*sensor, 20_500)).collect(),
            )]
        }
        _ => vec![stage(vec![of_sensor(
            random.below(400),
            random.between(20_400, 20_501),
        )])],
    }
}

/// An order in its two tables, in one logged batch; and a cart, whose stock is another row of other values.
pub(crate) fn orders(random: &mut Random) -> Vec<Stage> {
    let (id, who) = (random.next() >> 1, random.popular(5_000));
    let order = Statement {
        parts: vec![
            (
                "INSERT INTO s.orders_by_user (who, id, item) VALUES (?, ?, ?)",
                vec![number(who), number(id), text("item")],
            ),
            (
                "INSERT INTO s.orders_by_day (day, id, who, item) VALUES (?, ?, ?, ?)",
                vec![day(20_500), number(id), number(who), text("item")],
            ),
        ],
        ..write("", Vec::new())
    };
    let item = random.popular(500);
    let cart = write(
        "INSERT INTO s.carts (who, item, title) VALUES (?, ?, ?)",
        vec![number(who), number(item), text(format!("title {item}"))],
    );
    let stock = write(
        "INSERT INTO s.stock (item, pieces, place) VALUES (?, ?, ?)",
        vec![number(item), number(random.below(1_000)), text("shelf")],
    );
    vec![stage(vec![order]), stage(vec![cart]), stage(vec![stock])]
}

/// What a user has looked at, page by page; others click on the same.
pub(crate) fn history(random: &mut Random) -> Vec<Stage> {
    let who = random.popular(2_000);
    let page = |page: u64| {
        let items: Vec<u64> = (0..6)
            .map(|item| 9_000_000 + (who + page * 6 + item) % 2_000)
            .collect();
        stage(vec![Statement {
            page,
            has_more: page < 4,
            ..read(
                "SELECT item FROM s.history WHERE who = ?",
                vec![number(who)],
                column(&items),
            )
        }])
    };
    (0..5).map(page).collect()
}

/// A draft whose read fails again and again before it is answered, a read that is sent twice at once, and a write that is sent
/// again after it failed.
pub(crate) fn once_more(random: &mut Random) -> Vec<Stage> {
    let (who, id) = (random.popular(5_000), random.next() >> 1);
    let draft = read(
        "SELECT title FROM s.drafts WHERE who = ?",
        vec![number(who)],
        vec![vec![text("title")]],
    );
    let size = read(
        "SELECT bytes FROM s.sizes WHERE who = ?",
        vec![number(who)],
        vec![vec![number(7)]],
    );
    let save = write(
        "INSERT INTO s.saved (who, id, title) VALUES (?, ?, ?)",
        vec![number(who), number(id), text(format!("draft {id}"))],
    );
    let failed = |statement: &Statement| Statement {
        fails: true,
        ..statement.clone()
    };
    let drafts = (0..random.below(6)).map(|_| stage(vec![failed(&draft)]));
    let others = [
        stage(vec![draft.clone()]),
        stage(vec![size.clone(), size]),
        stage(vec![failed(&save)]),
        stage(vec![save]),
    ];
    drafts.chain(others).collect()
}

/// A worker that takes eight entries from the head of a queue: the same read, each time after a delete.
pub(crate) fn queue(random: &mut Random) -> Vec<Stage> {
    let topic = format!("topic-{}", random.below(40));
    let head = random.below(1_000_000);
    let take = |entry: u64| {
        let next = read(
            "SELECT item FROM s.news WHERE topic = ? LIMIT 1",
            vec![text(topic.clone())],
            column(&[head + entry]),
        );
        let done = write(
            "DELETE FROM s.news WHERE topic = ? AND item = ?",
            vec![text(topic.clone()), number(head + entry)],
        );
        [stage(vec![next]), stage(vec![done])]
    };
    (0..8).flat_map(take).collect()
}

/// One of twenty front pages, the popular ones by many users.
pub(crate) fn front_page(random: &mut Random) -> Vec<Stage> {
    vec![stage(vec![read(
        "SELECT text FROM s.front_pages WHERE name = ?",
        vec![text(format!("page-{}", random.popular(20)))],
        vec![vec![text("news")]],
    )])]
}
