//! Methods that the answers by key have in common.

/// Methods of a table of keys that pass a stratum's facts on to the sample of all messages, which
/// is the given field.
macro_rules! strata_methods {
    ($($messages:ident).+) => {
        /// Sets the number of messages that a stratum sent.
        ///
        /// # Errors
        /// As [`Sample::set_messages_sent`].
        pub fn set_messages_sent(
            &mut self,
            stratum: u32,
            messages: u64,
        ) -> Result<(), AnswerError> {
            self.$($messages).+.set_messages_sent(stratum, messages)
        }

        /// Sets the exact number of records in all messages of a stratum, arrived or not. Answers
        /// then warn if the sample contradicts it; those over all keys ([`Self::all`]) use it as
        /// [`Sample`] does.
        ///
        /// # Errors
        /// As [`Sample::set_exact_records`].
        pub fn set_exact_records(
            &mut self,
            stratum: u32,
            records: f64,
        ) -> Result<(), AnswerError> {
            self.$($messages).+.set_exact_records(stratum, records)
        }

        /// Sets how the messages of a stratum were sent, and which of them are missing.
        ///
        /// # Errors
        /// As [`Sample::set_delivery`].
        pub fn set_delivery(
            &mut self,
            stratum: u32,
            delivery: &Delivery,
        ) -> Result<(), AnswerError> {
            self.$($messages).+.set_delivery(stratum, delivery)
        }

        /// Records that arrived without a value.
        pub fn missing(&self) -> u64 {
            self.$($messages).+.missing()
        }

        /// All messages without regard to keys: their records and totals.
        pub fn all(&self) -> &Sample {
            &self.$($messages).+
        }
    };
}

pub(crate) use strata_methods;
