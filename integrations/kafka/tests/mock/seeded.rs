//! Seeded runs with crashes and rebalances.
