//! Typed access to a map of the eBPF object.

use super::{DatapathError, bpf};
use aya::{
    Ebpf,
    maps::{Map, MapData},
};
use bytemuck::Pod;
use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd, BorrowedFd},
};

/// A map whose keys and values have the types of `atp_common::maps`.
#[derive(Debug)]
pub struct Table<K, V> {
    map: MapData,
    name: &'static str,
    types: PhantomData<fn(K, V)>,
}

impl<K: Pod, V: Pod> Table<K, V> {
    /// Takes a map out of the object and checks the sizes of its keys and values.
    pub fn take(ebpf: &mut Ebpf, name: &'static str) -> Result<Self, DatapathError> {
        let map = map_data(ebpf, name)?;
        let info = map.info().map_err(|error| DatapathError::Load(error.to_string()))?;
        let sizes = (info.key_size() as usize, info.value_size() as usize);
        if sizes != (size_of::<K>(), size_of::<V>()) {
            return Err(mismatch(format!(
                "the keys and values of the map {name} have {sizes:?} bytes"
            )));
        }
        Ok(Self { map, name, types: PhantomData })
    }

    /// Sets an element.
    pub fn set(&self, key: K, value: &V) -> Result<(), DatapathError> {
        bpf::update(self.as_fd(), &key, value).map_err(|error| self.error(error))
    }

    fn error(&self, error: io::Error) -> DatapathError {
        DatapathError::map(format!("write the map {}", self.name), error)
    }

    /// Removes an element.
    pub fn remove(&self, key: K) -> Result<(), DatapathError> {
        bpf::delete(self.as_fd(), &key).map_err(|error| self.error(error))
    }
}

impl<K, V> AsFd for Table<K, V> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.fd().as_fd()
    }
}

fn map_data(ebpf: &mut Ebpf, name: &'static str) -> Result<MapData, DatapathError> {
    match ebpf.take_map(name) {
        Some(Map::Array(map) | Map::HashMap(map) | Map::ArrayOfMaps(map)) => Ok(map),
        Some(_) => Err(mismatch(format!("the map {name} has another type"))),
        None => Err(mismatch(format!("it has no map {name}"))),
    }
}

pub(super) fn mismatch(what: String) -> DatapathError {
    DatapathError::ObjectMismatch { what }
}
