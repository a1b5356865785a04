//! Permissions of users (ACLs).
//!
//! rdkafka has no call for them, so this uses librdkafka's own.

use std::ffi::CString;
use std::ptr;

use anyhow::{Result, ensure};
pub use rd_kafka_AclOperation_t::{
    RD_KAFKA_ACL_OPERATION_CREATE as CREATE, RD_KAFKA_ACL_OPERATION_READ as READ,
    RD_KAFKA_ACL_OPERATION_WRITE as WRITE,
};
pub use rd_kafka_ResourceType_t::{
    RD_KAFKA_RESOURCE_GROUP as GROUP, RD_KAFKA_RESOURCE_TOPIC as TOPIC,
    RD_KAFKA_RESOURCE_TRANSACTIONAL_ID as TRANSACTIONAL_ID,
};
use rdkafka::ClientConfig;
use rdkafka::bindings::{
    rd_kafka_AclBinding_destroy, rd_kafka_AclBinding_new, rd_kafka_AclOperation_t,
    rd_kafka_AclPermissionType_t, rd_kafka_CreateAcls, rd_kafka_ResourcePatternType_t,
    rd_kafka_ResourceType_t, rd_kafka_event_destroy, rd_kafka_event_error, rd_kafka_queue_destroy,
    rd_kafka_queue_new, rd_kafka_queue_poll,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::RDKafkaRespErr;

use crate::topics::LIMIT;

/// A resource, and an operation that a user may do with it.
pub type Permission<'a> = (rd_kafka_ResourceType_t, &'a str, rd_kafka_AclOperation_t);

/// Lets a user, such as `User:bridge`, do this.
pub fn allow(client: &ClientConfig, user: &str, permissions: &[Permission<'_>]) -> Result<()> {
    let client: BaseConsumer = client.create()?;
    let (user, host) = (CString::new(user)?, c"*");
    for (resource, name, operation) in permissions {
        let name = CString::new(*name)?;
        // SAFETY: the client outlives the calls, and the texts are alive. The binding copies them,
        // the request copies the binding, and each is destroyed once, behind its last use.
        unsafe {
            let mut binding = rd_kafka_AclBinding_new(
                *resource,
                name.as_ptr(),
                rd_kafka_ResourcePatternType_t::RD_KAFKA_RESOURCE_PATTERN_LITERAL,
                user.as_ptr(),
                host.as_ptr(),
                *operation,
                rd_kafka_AclPermissionType_t::RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW,
                ptr::null_mut(),
                0,
            );
            ensure!(!binding.is_null(), "{name:?} can't have a permission");
            let native = client.client().native_ptr();
            let queue = rd_kafka_queue_new(native);
            rd_kafka_CreateAcls(native, &mut binding, 1, ptr::null(), queue);
            rd_kafka_AclBinding_destroy(binding);
            let event = rd_kafka_queue_poll(queue, LIMIT.as_millis() as i32);
            let error = (!event.is_null()).then(|| rd_kafka_event_error(event));
            if !event.is_null() {
                rd_kafka_event_destroy(event);
            }
            rd_kafka_queue_destroy(queue);
            let is_good = error == Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR);
            ensure!(is_good, "no permission for {name:?}: {error:?}");
        }
    }
    Ok(())
}
