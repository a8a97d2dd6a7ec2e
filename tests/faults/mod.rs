//! What goes wrong around a proxy, and in it: clients see what they would see without it, other connections
//! see nothing, and nothing is left behind. The table is in `README.md` here; faults of a real Cassandra are
//! in `tests/cassandra/faults.rs`.

#[path = "../../proto/tests/golden/recording.rs"]
#[allow(unreachable_pub)]
mod recording;
use cqlens_testing as support;

use crate::proxy::wire;

mod auditor;
mod blinding;
mod bystander;
mod control;
mod disk;
mod ends;
mod hostile;
mod leaks;
mod memory;
mod mutator;
mod nodes;
mod overload;
mod prepared;
mod rig;
mod sight;
mod soak;
mod stuck;
