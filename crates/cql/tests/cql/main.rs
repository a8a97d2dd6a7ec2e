//! CQL as applications write it, as real drivers have sent it, and as nobody should: what each text is, and that none is too much.

mod exercise;
mod footprint_allocates_nothing;
mod golden;
mod golden_mutated;
mod properties;
mod statements;
mod templates;
mod tree;
mod work;
