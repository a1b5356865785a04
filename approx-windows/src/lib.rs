//! Windows of a stream of records.
