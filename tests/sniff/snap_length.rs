//! Which snap length still gives exact counts of partitions.
