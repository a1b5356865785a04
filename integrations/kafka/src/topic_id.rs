//! The ids of topics: a topic that is deleted and made again has another one.
//!
//! rdkafka has no call for them, so this uses librdkafka's own.

use anyhow::{Result, bail};
use rdkafka::{
    ClientContext,
    bindings::{
        rd_kafka_AdminOptions_destroy, rd_kafka_AdminOptions_new, rd_kafka_AdminOptions_set_broker,
        rd_kafka_DescribeTopics, rd_kafka_DescribeTopics_result_topics,
        rd_kafka_TopicCollection_destroy, rd_kafka_TopicCollection_of_topic_names,
        rd_kafka_TopicDescription_topic_id, rd_kafka_Uuid_base64str, rd_kafka_admin_op_t,
        rd_kafka_event_DescribeTopics_result, rd_kafka_event_destroy, rd_kafka_queue_destroy,
        rd_kafka_queue_new, rd_kafka_queue_poll,
    },
    client::Client,
};
use std::{
    ffi::{CStr, CString},
    ptr,
    time::Duration,
};

/// The id of a topic; empty if the brokers are too old to tell.
///
/// # Errors
/// No broker answers in time.
pub fn topic_id<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    timeout: Duration,
) -> Result<String> {
    let Ok(name) = CString::new(topic) else { bail!("{topic:?} is no topic's name") };
    // Any broker knows it. Without a choice librdkafka waits for the controller.
    let metadata = client.fetch_metadata(Some(topic), timeout)?;
    let Some(broker) = metadata.brokers().first() else { bail!("there is no broker") };
    let mut names = [name.as_ptr()];
    // SAFETY: the client outlives the calls. The collection copies the name; the request copies the
    // collection; the event owns the result, and is destroyed behind its last use.
    unsafe {
        let queue = rd_kafka_queue_new(client.native_ptr());
        let topics = rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
        let timeout_ms = timeout.as_millis().try_into().unwrap_or(i32::MAX);
        let operation = rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let options = rd_kafka_AdminOptions_new(client.native_ptr(), operation);
        // A refusal of an option leaves the default.
        rd_kafka_AdminOptions_set_broker(options, broker.id(), ptr::null_mut(), 0);
        rd_kafka_DescribeTopics(client.native_ptr(), topics, options, queue);
        rd_kafka_AdminOptions_destroy(options);
        rd_kafka_TopicCollection_destroy(topics);
        let event = rd_kafka_queue_poll(queue, timeout_ms);
        let id = id_of(event);
        if !event.is_null() {
            rd_kafka_event_destroy(event);
        }
        rd_kafka_queue_destroy(queue);
        match id {
            Some(id) => Ok(id),
            None => bail!("the brokers don't tell the id of topic {topic:?}"),
        }
    }
}

/// The id in an answer; `None` if it is no answer.
///
/// # Safety
/// The event is alive, or null.
unsafe fn id_of(event: *mut rdkafka::types::RDKafkaEvent) -> Option<String> {
    // SAFETY: the caller's event is alive, and the result is its own.
    unsafe {
        if event.is_null() {
            return None;
        }
        let result = rd_kafka_event_DescribeTopics_result(event);
        if result.is_null() {
            return None;
        }
        let mut number = 0;
        let descriptions = rd_kafka_DescribeTopics_result_topics(result, &mut number);
        if descriptions.is_null() || number == 0 {
            return None;
        }
        let id = rd_kafka_TopicDescription_topic_id(*descriptions);
        let text = if id.is_null() { ptr::null() } else { rd_kafka_Uuid_base64str(id) };
        Some(match text.is_null() {
            true => String::new(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        })
    }
}
