//! What applications do: operations of which it is known what they are.

use crate::simulation::{Cell, Random, Stage, Statement, read, stage, write};

pub(crate) const SCHEMA: &str = "
    CREATE KEYSPACE s WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
    CREATE TABLE s.groups (groupname text, user_id bigint, PRIMARY KEY (groupname, user_id));
    CREATE TABLE s.users (id bigint PRIMARY KEY, name text);
    CREATE TABLE s.teams (name text PRIMARY KEY, members set<bigint>);
    CREATE TABLE s.memberships (groupname text, user_id bigint, role text, PRIMARY KEY ((groupname, user_id)));
    CREATE TABLE s.emails (email text PRIMARY KEY, id bigint);
    CREATE TABLE s.accounts (id bigint PRIMARY KEY, name text);
    CREATE TABLE s.words (word text, document bigint, PRIMARY KEY (word, document));
    CREATE TABLE s.documents (id bigint, part bigint, PRIMARY KEY (id, part));
    CREATE TABLE s.parts (id bigint PRIMARY KEY, text text);
    CREATE TABLE s.bucketed (name text, bucket int, at bigint, PRIMARY KEY ((name, bucket), at));
    CREATE TABLE s.daily (name text, day date, at bigint, PRIMARY KEY ((name, day), at));
    CREATE TABLE s.by_phone (phone text PRIMARY KEY, id bigint, name text, town text);
    CREATE TABLE s.by_name (name text PRIMARY KEY, id bigint, phone text, town text);
    CREATE TABLE s.items (id bigint PRIMARY KEY, title text);
    CREATE TABLE s.likes (item bigint, who bigint, name text, PRIMARY KEY (item, who));
    CREATE TABLE s.lists (name text, item bigint, PRIMARY KEY (name, item));
    CREATE TABLE s.news (topic text, item bigint, state text, PRIMARY KEY (topic, item));
    CREATE TABLE s.articles (id bigint PRIMARY KEY, title text);
    CREATE TABLE s.by_state (state text, item bigint, PRIMARY KEY (state, item));
    CREATE TABLE s.sensors (sensor int, day date, at bigint, PRIMARY KEY ((sensor, day), at));
    CREATE TABLE s.balances (account bigint PRIMARY KEY, cents bigint);
    CREATE TABLE s.profiles (who bigint PRIMARY KEY, motto text);
    CREATE TABLE s.jobs (id bigint PRIMARY KEY, state text);
    CREATE TABLE s.settings (name text PRIMARY KEY, value text);
    CREATE TABLE s.products (id bigint PRIMARY KEY, category int, added date, sold boolean);
    CREATE TABLE s.by_category (category int, id bigint, PRIMARY KEY (category, id));
    CREATE TABLE s.by_date (added date, id bigint, PRIMARY KEY (added, id));
    CREATE TABLE s.by_sale (sold boolean, id bigint, PRIMARY KEY (sold, id));
    CREATE TABLE s.history (who bigint, item bigint, PRIMARY KEY (who, item));
    CREATE TABLE s.drafts (who bigint PRIMARY KEY, title text);
    CREATE TABLE s.sizes (who bigint PRIMARY KEY, bytes bigint);
    CREATE TABLE s.saved (who bigint, id bigint, title text, PRIMARY KEY (who, id));
    CREATE TABLE s.front_pages (name text PRIMARY KEY, text text);
    CREATE TABLE s.exported (id bigint PRIMARY KEY, title text);
    CREATE TABLE s.orders_by_user (who bigint, id bigint, item text, PRIMARY KEY (who, id));
    CREATE TABLE s.orders_by_day (day date, id bigint, who bigint, item text, PRIMARY KEY (day, id));
    CREATE TABLE s.carts (who bigint, item bigint, title text, PRIMARY KEY (who, item));
    CREATE TABLE s.stock (item bigint PRIMARY KEY, pieces bigint, place text);";

pub(crate) fn number(value: u64) -> Cell {
    value.to_be_bytes().to_vec()
}

pub(crate) fn int(value: u64) -> Cell {
    u32::try_from(value).unwrap().to_be_bytes().to_vec()
}

pub(crate) fn text(value: impl Into<String>) -> Cell {
    value.into().into_bytes()
}

pub(crate) fn day(days: u64) -> Cell {
    int((1 << 31) + days)
}

pub(crate) fn column(values: &[u64]) -> Vec<Vec<Cell>> {
    values.iter().map(|value| vec![number(*value)]).collect()
}

/// A value of several: their number, and each with its length.
pub(crate) fn list(elements: impl Iterator<Item = Cell>) -> Cell {
    let elements: Vec<Cell> = elements.collect();
    let parts = elements
        .iter()
        .flat_map(|element| [int(element.len() as u64), element.clone()]);
    [int(elements.len() as u64)]
        .into_iter()
        .chain(parts)
        .flatten()
        .collect()
}

/// Members of a group: as many for every reader.
fn members(group: u64) -> Vec<u64> {
    let mut random = Random(group);
    let count = random.between(8, 17);
    let mut members: Vec<u64> = (0..count).map(|_| random.below(20_000)).collect();
    members.sort_unstable();
    members.dedup();
    members
}

fn members_of(random: &mut Random) -> (Stage, Vec<Statement>) {
    of_group(random.popular(400))
}

fn of_group(group: u64) -> (Stage, Vec<Statement>) {
    let ids = members(group);
    let list = read(
        "SELECT user_id FROM s.groups WHERE groupname = ?",
        vec![text(format!("group-{group}"))],
        column(&ids),
    );
    (stage(vec![list]), ids.into_iter().map(user).collect())
}

fn user(id: u64) -> Statement {
    read(
        "SELECT name FROM s.users WHERE id = ?",
        vec![number(id)],
        vec![vec![text(format!("user {id}"))]],
    )
}

/// A group, and its members one after the other.
pub(crate) fn join_one_by_one(random: &mut Random) -> Vec<Stage> {
    let (list, users) = members_of(random);
    let users = users.into_iter().map(|user| stage(vec![user]));
    [list].into_iter().chain(users).collect()
}

/// The same, in whatever order a set has them.
pub(crate) fn join_in_no_order(random: &mut Random) -> Vec<Stage> {
    let (list, mut users) = members_of(random);
    random.shuffle(&mut users);
    let users = users.into_iter().map(|user| stage(vec![user]));
    [list].into_iter().chain(users).collect()
}

/// The same, at once.
pub(crate) fn join_at_once(random: &mut Random) -> Vec<Stage> {
    let (list, users) = members_of(random);
    vec![list, stage(users)]
}

/// The same, where a third is in a cache.
pub(crate) fn join_with_cache(random: &mut Random) -> Vec<Stage> {
    let (list, users) = members_of(random);
    let users = users.into_iter().enumerate().filter(|(at, _)| at % 3 != 0);
    let users = users.map(|(_, user)| stage(vec![user]));
    [list].into_iter().chain(users).collect()
}

/// The same, where every other user is in a cache: those that were asked for before.
pub(crate) fn join_with_warm_cache(random: &mut Random) -> Vec<Stage> {
    let group = random.popular(400);
    let (list, _) = of_group(group);
    let missing = members(group).into_iter().filter(|id| id % 2 == 0);
    [list]
        .into_iter()
        .chain(missing.map(|id| stage(vec![user(id)])))
        .collect()
}

/// The same, in one request.
pub(crate) fn join_by_in(random: &mut Random) -> Vec<Stage> {
    let group = random.popular(400);
    let ids = members(group);
    let rows = ids.iter().map(|id| vec![text(format!("user {id}"))]);
    let users = read(
        "SELECT name FROM s.users WHERE id IN ?",
        vec![list(ids.iter().map(|id| number(*id)))],
        rows.collect(),
    );
    let (list, _) = of_group(group);
    vec![list, stage(vec![users])]
}

/// A large group in five pages, and the members of each page before the next one is read.
pub(crate) fn join_of_pages(random: &mut Random) -> Vec<Stage> {
    let group = random.popular(400);
    let ids: Vec<u64> = (0..30).map(|at| 40_000 + group * 30 + at).collect();
    let pages = ids.chunks(6).enumerate().flat_map(|(page, ids)| {
        let page = Statement {
            page: page as u64,
            has_more: page < 4,
            ..read(
                "SELECT user_id FROM s.groups WHERE groupname = ?",
                vec![text(format!("large-group-{group}"))],
                column(ids),
            )
        };
        [stage(vec![page]), stage(ids.iter().map(|id| user(*id)).collect())]
    });
    pages.collect()
}

/// A team, which is one row with a set of members, and the members one after the other.
pub(crate) fn join_of_a_set(random: &mut Random) -> Vec<Stage> {
    let group = random.popular(400);
    let ids = members(group);
    let team = read(
        "SELECT members FROM s.teams WHERE name = ?",
        vec![text(format!("team-{group}"))],
        vec![vec![list(ids.iter().map(|id| number(*id)))]],
    );
    let users = ids.into_iter().map(|id| stage(vec![user(id)]));
    [stage(vec![team])].into_iter().chain(users).collect()
}

/// A group, and what its members are in it: their key is the key of the group and a value of a row.
pub(crate) fn join_with_the_key(random: &mut Random) -> Vec<Stage> {
    let group = random.popular(400);
    let (list, _) = of_group(group);
    let roles = members(group).into_iter().map(|id| {
        stage(vec![read(
            "SELECT role FROM s.memberships WHERE groupname = ? AND user_id = ?",
            vec![text(format!("group-{group}")), number(id)],
            vec![vec![text("reader")]],
        )])
    });
    [list].into_iter().chain(roles).collect()
}

/// The key of an account by its e-mail address, and then the account.
pub(crate) fn lookup(random: &mut Random) -> Vec<Stage> {
    let id = random.popular(20_000);
    vec![
        stage(vec![read(
            "SELECT id FROM s.emails WHERE email = ?",
            vec![text(format!("{id}@example.org"))],
            column(&[id + 1_000_000]),
        )]),
        stage(vec![read(
            "SELECT name FROM s.accounts WHERE id = ?",
            vec![number(id + 1_000_000)],
            vec![vec![text(format!("account {id}"))]],
        )]),
    ]
}

/// Documents by a word, their parts, and the text of each.
pub(crate) fn chain(random: &mut Random) -> Vec<Stage> {
    let word = random.popular(500);
    let document = 3_000_000 + word * 7;
    let parts: Vec<u64> = (0..10).map(|part| 5_000_000 + word * 100 + part).collect();
    let list = read(
        "SELECT document FROM s.words WHERE word = ?",
        vec![text(format!("word-{word}"))],
        column(&[document]),
    );
    let of_document = read(
        "SELECT part FROM s.documents WHERE id = ?",
        vec![number(document)],
        column(&parts),
    );
    let texts = parts.iter().map(|part| {
        let cql = "SELECT text FROM s.parts WHERE id = ?";
        stage(vec![read(cql, vec![number(*part)], vec![vec![text("…")]])])
    });
    [stage(vec![list]), stage(vec![of_document])]
        .into_iter()
        .chain(texts)
        .collect()
}

/// All six buckets of a name.
pub(crate) fn buckets(random: &mut Random) -> Vec<Stage> {
    let name = random.popular(300);
    let of_bucket = |bucket: u64| {
        read(
            "SELECT at FROM s.bucketed WHERE name = ? AND bucket = ?",
            vec![text(format!("name-{name}")), int(bucket)],
            column(&[1, 2, 3]),
        )
    };
    vec![stage((0..6).map(of_bucket).collect())]
}

/// Days back until there are ten rows, three a day.
pub(crate) fn days_back(random: &mut Random) -> Vec<Stage> {
    let name = random.popular(300);
    let of_day = |back: u64| {
        stage(vec![read(
            "SELECT at FROM s.daily WHERE name = ? AND day = ? LIMIT 10",
            vec![text(format!("name-{name}")), day(20_500 - back)],
            column(&[1, 2, 3]),
        )])
    };
    (0..4).map(of_day).collect()
}

/// The same, where one in five reads times out and is sent again.
pub(crate) fn days_back_with_retries(random: &mut Random) -> Vec<Stage> {
    let days = days_back(random).into_iter().flat_map(|day| {
        let fails = random.below(5) == 0;
        let failed = fails.then(|| {
            let first = day.requests[0].clone();
            stage(vec![Statement { fails: true, ..first }])
        });
        failed.into_iter().chain([day])
    });
    days.collect()
}

/// The same, where one in five reads is sent a second time before it is answered.
pub(crate) fn days_back_with_speculation(random: &mut Random) -> Vec<Stage> {
    let mut days = days_back(random);
    for day in &mut days {
        if random.below(5) == 0 {
            day.requests.push(day.requests[0].clone());
        }
    }
    days
}

/// A person in two tables, one after the other; one in fifty second writes fails.
pub(crate) fn two_tables(random: &mut Random) -> Vec<Stage> {
    let id = random.next() >> 1;
    let (name, phone) = (text(format!("person {id}")), text(format!("+49 {id}")));
    let first = write(
        "INSERT INTO s.by_phone (phone, id, name, town) VALUES (?, ?, ?, ?)",
        vec![phone.clone(), number(id), name.clone(), text("berlin")],
    );
    let second = Statement {
        fails: random.below(50) == 0,
        ..write(
            "INSERT INTO s.by_name (name, id, phone, town) VALUES (?, ?, ?, ?)",
            vec![name, number(id), phone, text("berlin")],
        )
    };
    vec![stage(vec![first]), stage(vec![second])]
}

/// An account, whose balance is read and then written.
pub(crate) fn change_a_balance(random: &mut Random) -> Vec<Stage> {
    let account = random.popular(20_000);
    vec![
        stage(vec![read(
            "SELECT cents FROM s.balances WHERE account = ?",
            vec![number(account)],
            vec![vec![number(random.below(100_000))]],
        )]),
        stage(vec![write(
            "UPDATE s.balances SET cents = ? WHERE account = ?",
            vec![number(random.below(100_000)), number(account)],
        )]),
    ]
}

/// A setting for each of eight lines of an order.
pub(crate) fn settings(random: &mut Random) -> Vec<Stage> {
    let name = format!("setting-{}", random.below(40));
    let setting = || {
        read(
            "SELECT value FROM s.settings WHERE name = ?",
            vec![text(name.clone())],
            vec![vec![text("euro")]],
        )
    };
    (0..8).map(|_| stage(vec![setting()])).collect()
}
