//! The chapters of the demo's report: for each purpose the models that the literature knows, the worse ones first.

use cqlens_node::scenario::{Phase, Scenario, Step};
use cqlens_report::{Chapter, ChapterTables, Report};

/// Models for one purpose.
struct ChapterSource {
    title: &'static str,
    about: &'static str,
    models: &'static [ModelSource],
}

/// A model, in the keyspace of a scenario.
struct ModelSource {
    name: &'static str,
    scenario: &'static str,
    keyspace: &'static str,
    /// Of the keyspace; all if none is named.
    tables: &'static [&'static str],
    /// Operations of an iteration.
    each: u64,
}

const fn model(
    name: &'static str,
    scenario: &'static str,
    keyspace: &'static str,
    tables: &'static [&'static str],
) -> ModelSource {
    ModelSource {
        name,
        scenario,
        keyspace,
        tables,
        each: 1,
    }
}

const fn several(each: u64, model: ModelSource) -> ModelSource {
    ModelSource { each, ..model }
}

const CHAPTERS: &[ChapterSource] = &[
    ChapterSource {
        title: "Users, by name and by e-mail.",
        about: "One look-up. A second copy of a user saves the second read.",
        models: &[
            several(
                2,
                model(
                    "The id first, then the user",
                    "users-index-tables",
                    "users_index_tables",
                    &[],
                ),
            ),
            several(
                2,
                model(
                    "A table for each look-up",
                    "users-two-tables",
                    "users_two_tables",
                    &[],
                ),
            ),
        ],
    },
    ChapterSource {
        title: "Groups.",
        about: "One group with its members. Storing only ids saves space and costs one read per member; buckets pay off only for very large groups.",
        models: &[
            model(
                "Ids, and a read for each member",
                "groups-normalised",
                "groups_normalised",
                &[],
            ),
            model(
                "Four buckets for each group",
                "groups-hash-prefix",
                "groups_hash_prefix",
                &[],
            ),
            model(
                "A partition for each group",
                "groups-one-partition",
                "groups_one_partition",
                &[],
            ),
        ],
    },
    ChapterSource {
        title: "The newest members.",
        about: "The ten newest members of a group. Buckets that are too short are read one after the other; rows in clustering order need one read.",
        models: &[
            model("A partition for each day", "newest-by-day", "newest_by_day", &[]),
            model("Oldest first", "newest-ascending", "newest_ascending", &[]),
            several(
                2,
                model("Newest first", "newest-descending", "newest_descending", &[]),
            ),
        ],
    },
    ChapterSource {
        title: "Likes.",
        about: "What a user likes. Titles need one more read per item, unless they are stored beside the ids.",
        models: &[
            model(
                "Ids, then a read for each item",
                "likes-2-custom-index",
                "likes_2_custom_index",
                &["item_by_user", "items"],
            ),
            model(
                "Titles beside the ids",
                "likes-3-denormalised",
                "likes_3_denormalised",
                &["item_by_user"],
            ),
        ],
    },
    ChapterSource {
        title: "A laboratory.",
        about: "A user is looked up by a column that is not the key: an index involves every node, a view one partition, at the cost of more writes.",
        models: &[
            several(
                3,
                model("Secondary indexes", "lab-index", "lab_index", &["users"]),
            ),
            model(
                "A materialized view",
                "lab-views",
                "lab_views",
                &["users_by_phone"],
            ),
        ],
    },
    ChapterSource {
        title: "Readings of sensors.",
        about: "Every value of two `IN` lists is combined with every other one; a dashboard needs one sensor and one day.",
        models: &[
            model("Sensors times days", "cartesian-in", "cartesian_in", &[]),
            model("One sensor and day", "time-series", "time_series", &[]),
        ],
    },
    ChapterSource {
        title: "A queue.",
        about: "The next job. A read from the head of the queue scans every job that is done.",
        models: &[
            model("Take the first, delete it", "queue", "queue", &["jobs"]),
            model(
                "A hundred to a partition, read on from the last",
                "queue",
                "queue",
                &["jobs_by_batch"],
            ),
        ],
    },
    ChapterSource {
        title: "A hotel.",
        about: "The reservations of a guest. A key of names alone lets one guest overwrite the reservation of another.",
        models: &[
            model(
                "Reservations by the name of the guest",
                "hotel-overwrite",
                "hotel_overwrite",
                &[],
            ),
            model(
                "A table for each query",
                "hotel",
                "reservation",
                &["reservations_by_guest"],
            ),
        ],
    },
    ChapterSource {
        title: "Writes.",
        about: "What batches, conditions and nulls cost, and what two writes without a batch risk.",
        models: &[
            model(
                "Batches for speed",
                "lab-batch-for-speed",
                "lab_batch_for_speed",
                &[],
            ),
            model("Most writes conditional", "lab-lwt", "lab_lwt", &[]),
            model(
                "Two tables, one after the other",
                "lab-dual-write",
                "lab_dual_write",
                &["users_by_phone", "users_by_email"],
            ),
            model("Nulls for what is not known", "null-insert", "null_insert", &[]),
        ],
    },
];

/// The chapters of a report of all `scenarios`.
pub(super) fn of(report: &Report, scenarios: &[Scenario]) -> Vec<Chapter> {
    let chapters = CHAPTERS.iter().map(|chapter| Chapter {
        title: chapter.title.to_owned(),
        about: chapter.about.to_owned(),
        models: chapter
            .models
            .iter()
            .map(|model| {
                let place = ChapterTables {
                    keyspace: model.keyspace,
                    tables: model.tables,
                };
                report.model(model.name, place, model.operations(scenarios))
            })
            .collect(),
    });
    chapters.collect()
}

impl ModelSource {
    /// Of all iterations that read it.
    fn operations(&self, scenarios: &[Scenario]) -> u64 {
        let scenario = scenarios.iter().find(|scenario| scenario.id == self.scenario);
        let phases = scenario.map_or(&[][..], |scenario| &scenario.traffic.phases);
        let reading = phases.iter().filter(|phase| self.is_read_by(phase));
        reading.map(|phase| phase.repeat * self.each).sum()
    }

    fn is_read_by(&self, phase: &Phase) -> bool {
        let reads = |step: &Step| {
            let cql = step
                .cql
                .as_ref()
                .and_then(|cql| cql.constant())
                .unwrap_or_default();
            let mut names = cql.split_whitespace().filter_map(|word| word.split_once('.'));
            let is_on = |(keyspace, table): (&str, &str)| {
                keyspace == self.keyspace && (self.tables.is_empty() || self.tables.contains(&table))
            };
            cql.starts_with("SELECT") && names.any(is_on)
        };
        phase.steps.iter().any(reads)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cli::demo::scenarios;

    #[test]
    fn every_model_is_of_a_scenario_and_all_but_writes_are_read() {
        let scenarios = scenarios::all().unwrap();
        for chapter in CHAPTERS {
            for model in chapter.models {
                let scenario = scenarios.iter().find(|scenario| scenario.id == model.scenario);
                assert!(
                    scenario.unwrap().schema.contains(model.keyspace),
                    "{}",
                    model.name
                );
                let is_read = model.operations(&scenarios) > 0;
                assert!(is_read || chapter.title == "Writes.", "{}", model.name);
            }
        }
    }

    #[test]
    fn operations_are_the_iterations_of_the_phases_that_read() {
        let scenarios = scenarios::all().unwrap();
        let operations =
            |chapter: usize, model: usize| CHAPTERS[chapter].models[model].operations(&scenarios);
        assert_eq!(operations(0, 0), 800, "users, two look-ups in an iteration");
        assert_eq!(operations(1, 1), 400, "two phases that read groups");
        assert_eq!(
            (operations(6, 0), operations(6, 1)),
            (1_300, 500),
            "jobs of each table"
        );
    }
}
