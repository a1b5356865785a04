//! The job's messages: rows batched as CSV text, in an order drawn from the seed.
//!
//! A table's rows are usually sorted (the flights by date), and a transport that stops early would
//! leave out the end. So the messages are shuffled before they are dealt to the senders, in the
//! same way for every scheme. The rows within a message stay neighbors.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rand::RngExt;
use rand::seq::{SliceRandom, index};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::table::Table;

/// Distinguishes the random draws from one seed.
const SHUFFLE_STREAM: u64 = 1;
const SAMPLE_STREAM: u64 = 2;
const LETTERS_STREAM: u64 = 3;

/// All messages of a job. Message `i` belongs to sender `i % senders`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Messages {
    /// Batches consecutive rows into messages of at most `bytes_max` bytes, each as full as
    /// possible, and shuffles the messages.
    ///
    /// # Errors
    /// A row is longer than a message.
    pub fn batch(table: &Table, bytes_max: usize, seed: u64) -> Result<Messages> {
        let mut batches = batches(table, bytes_max)?;
        ensure!(u32::try_from(batches.len()).is_ok(), "more than 2^32 messages");
        batches.shuffle(&mut draws(seed, SHUFFLE_STREAM));
        let mut messages = Messages { text: Vec::new(), ends: Vec::with_capacity(batches.len()) };
        for rows in batches {
            rows.for_each(|row| messages.text.extend_from_slice(table.row(row)));
            messages.ends.push(messages.text.len());
        }
        Ok(messages)
    }

    /// Makes `count` messages of `bytes` random letters. Only their completeness can be checked.
    pub fn of_size(count: usize, bytes: usize, seed: u64) -> Messages {
        let mut draws = draws(seed, LETTERS_STREAM);
        let text = (0..count * bytes).map(|_| draws.random_range(b'a'..=b'z')).collect();
        Messages { text, ends: (1..=count).map(|message| message * bytes).collect() }
    }

    /// Writes the messages for [`Messages::read`]: the count and the end of each message as
    /// little-endian u64, then the text.
    pub fn write(&self, path: &Path) -> Result<()> {
        let write = || -> std::io::Result<()> {
            let mut file = BufWriter::new(File::create(path)?);
            file.write_all(&(self.ends.len() as u64).to_le_bytes())?;
            for &end in &self.ends {
                file.write_all(&(end as u64).to_le_bytes())?;
            }
            file.write_all(&self.text)?;
            file.flush()
        };
        write().with_context(|| format!("can't write the messages to {}", path.display()))
    }

    /// # Errors
    /// The file can't be read, or [`Messages::write`] didn't write it.
    pub fn read(path: &Path) -> Result<Messages> {
        let bytes = std::fs::read(path)
            .with_context(|| format!("can't read the messages in {}", path.display()))?;
        Messages::parse(&bytes).with_context(|| format!("{} holds no messages", path.display()))
    }

    fn parse(bytes: &[u8]) -> Option<Messages> {
        let (count, rest) = bytes.split_first_chunk::<8>()?;
        let ends_bytes = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(8)?;
        let (ends, text) = rest.split_at_checked(ends_bytes)?;
        let ends: Vec<usize> = ends
            .chunks_exact(8)
            .map(|end| end.iter().rev().fold(0, |number, &byte| number << 8 | byte as usize))
            .collect();
        let in_order = ends.is_sorted() && ends.last().copied().unwrap_or(0) == text.len();
        in_order.then(|| Messages { text: text.to_vec(), ends })
    }

    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of all messages together.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    pub fn message(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[index]]
    }

    pub fn get(&self, index: usize) -> Option<&[u8]> {
        (index < self.count()).then(|| self.message(index))
    }
}

/// The indices of one sender's messages, in sending order.
pub fn dealt_to(sender: usize, senders: usize, count: usize) -> impl Iterator<Item = usize> {
    (sender..count).step_by(senders)
}

/// The number of messages that an MSR needs: `ceil(MSR * N)` with N = `count`.
pub fn needed(msr: f64, count: usize) -> usize {
    // In whole parts per billion, like the transport: 0.8 * 10 is 8, not 8.000000000000002.
    let parts = (msr * 1e9).round() as u128;
    ((parts * count as u128).div_ceil(1_000_000_000)) as usize
}

/// A uniform random sample of exactly `size` of `count` messages, in order.
pub fn sample(count: usize, size: usize, seed: u64) -> Vec<usize> {
    let mut chosen = index::sample(&mut draws(seed, SAMPLE_STREAM), count, size).into_vec();
    chosen.sort_unstable();
    chosen
}

fn draws(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut draws = ChaCha8Rng::seed_from_u64(seed);
    draws.set_stream(stream);
    draws
}

fn batches(table: &Table, bytes_max: usize) -> Result<Vec<Range<usize>>> {
    let mut batches = Vec::new();
    let (mut first, mut bytes) = (0, 0);
    for row in 0..table.rows() {
        let length = table.row(row).len();
        ensure!(
            length <= bytes_max,
            "row {} of the table is {length} bytes long, and a message holds {bytes_max}: \
             raise --message-bytes",
            row + 1
        );
        if bytes + length > bytes_max {
            batches.push(first..row);
            (first, bytes) = (row, 0);
        }
        bytes += length;
    }
    batches.push(first..table.rows());
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use super::super::query::QuerySpec;
    use super::*;
    use std::collections::BTreeSet;

    fn table(rows: usize) -> Table {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        let mut text = "k,v\n".to_owned();
        for row in 0..rows {
            // Lines of different lengths.
            text += &format!("{},{}\n", "x".repeat(row % 7 + 1), row);
        }
        std::fs::write(&path, text).unwrap();
        let spec = QuerySpec::Averages { value: "v".to_owned(), keys: vec!["k".to_owned()] };
        Table::load(&path, &spec).unwrap()
    }

    fn rows_of(messages: &Messages) -> Vec<String> {
        let text: Vec<&[u8]> = (0..messages.count()).map(|i| messages.message(i)).collect();
        let text = String::from_utf8(text.concat()).unwrap();
        let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
        rows.sort();
        rows
    }

    #[test]
    fn batch__every_row_once_and_no_message_too_long() {
        let table = table(500);
        let mut all: Vec<String> = (0..500)
            .map(|row| String::from_utf8(table.row(row).to_vec()).unwrap().trim().to_owned())
            .collect();
        all.sort();
        for bytes_max in [16, 64, 100, 4_000] {
            let messages = Messages::batch(&table, bytes_max, 7).unwrap();
            assert_eq!(rows_of(&messages), all);
            assert!((0..messages.count()).all(|i| messages.message(i).len() <= bytes_max));
        }
        assert_eq!(Messages::batch(&table, 1 << 20, 7).unwrap().count(), 1);
        let refusal = Messages::batch(&table, 10, 7).unwrap_err().to_string();
        assert!(refusal.contains("row 14 of the table is 11 bytes"), "{refusal}");
    }

    #[test]
    fn batch__the_seed_decides_the_order() {
        let table = table(500);
        let batch = |seed| Messages::batch(&table, 64, seed).unwrap();
        assert_eq!(batch(1), batch(1));
        assert_ne!(batch(1), batch(2));
        assert_eq!(batch(1).count(), batch(2).count());
    }

    #[test]
    fn of_size__as_many_as_long_and_different() {
        let messages = Messages::of_size(10, 2_800, 1);
        assert_eq!((messages.count(), messages.bytes()), (10, 28_000));
        assert!((0..10).all(|i| messages.message(i).len() == 2_800));
        assert_ne!(messages.message(0), messages.message(1));
        assert_eq!(messages, Messages::of_size(10, 2_800, 1));
    }

    #[test]
    fn read__gives_back_what_was_written_and_refuses_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("messages");
        let messages = Messages::batch(&table(100), 64, 1).unwrap();
        messages.write(&path).unwrap();
        assert_eq!(Messages::read(&path).unwrap(), messages);
        let bytes = std::fs::read(&path).unwrap();
        for cut in [0, 5, 8, 100, bytes.len() - 1] {
            assert_eq!(Messages::parse(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(Messages::parse(&[0xff; 64]), None);
    }

    #[test]
    fn dealt_to__every_message_to_one_sender() {
        let mut all: Vec<usize> = (0..4).flat_map(|sender| dealt_to(sender, 4, 10)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        assert_eq!(dealt_to(1, 4, 10).collect::<Vec<_>>(), [1, 5, 9]);
        assert_eq!(dealt_to(3, 4, 2).count(), 0);
    }

    #[test]
    fn needed__rounds_up_and_not_by_accident() {
        assert_eq!(needed(0.8, 10), 8);
        assert_eq!(needed(0.8, 11), 9);
        assert_eq!(needed(1.0, 7), 7);
        assert_eq!(needed(0.29, 100), 29);
        assert_eq!(needed(0.000_001, 5), 1);
    }

    #[test]
    fn sample__has_exactly_the_size_and_no_doubles() {
        for (count, size) in [(10, 8), (1, 1), (1_000, 800), (5, 5)] {
            let chosen = sample(count, size, 3);
            assert_eq!(chosen.len(), size);
            assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), size);
            assert!(chosen.iter().all(|&message| message < count));
        }
        assert_eq!(sample(100, 80, 3), sample(100, 80, 3));
        assert_ne!(sample(100, 80, 3), sample(100, 80, 4));
    }

    #[test]
    fn sample__is_uniform() {
        let mut times_chosen = [0u32; 20];
        for seed in 0..2_000 {
            sample(20, 5, seed).into_iter().for_each(|message| times_chosen[message] += 1);
        }
        // 500 are expected each, with a standard deviation below 20.
        assert!(times_chosen.iter().all(|&times| (400..600).contains(&times)), "{times_chosen:?}");
    }
}
