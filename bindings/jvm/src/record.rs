//! Structures as bytes for Java, in the order in which `Fields.java` reads them: numbers in the
//! native order of bytes, texts and lists behind their lengths.

use std::net::SocketAddr;

#[derive(Default)]
pub struct Record(Vec<u8>);

impl Record {
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub fn flag(&mut self, flag: bool) -> &mut Self {
        self.u8(flag.into())
    }

    pub fn u8(&mut self, number: u8) -> &mut Self {
        self.bytes(&[number])
    }

    pub fn u32(&mut self, number: u32) -> &mut Self {
        self.bytes(&number.to_ne_bytes())
    }

    pub fn u64(&mut self, number: u64) -> &mut Self {
        self.bytes(&number.to_ne_bytes())
    }

    pub fn f64(&mut self, number: f64) -> &mut Self {
        self.bytes(&number.to_ne_bytes())
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.len(text.len()).bytes(text.as_bytes())
    }

    /// Bytes behind their length.
    pub fn blob(&mut self, bytes: &[u8]) -> &mut Self {
        self.len(bytes.len()).bytes(bytes)
    }

    /// An IPv6 address has the index of its interface behind it; an IPv4 address is mapped.
    pub fn address(&mut self, address: SocketAddr) -> &mut Self {
        let (ip, scope) = match address {
            SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), 0),
            SocketAddr::V6(v6) => (*v6.ip(), v6.scope_id()),
        };
        self.bytes(&ip.octets()).u32(scope).u32(address.port().into())
    }

    /// A flag, and the value if there is one.
    pub fn option<T>(
        &mut self,
        value: Option<T>,
        write: impl FnOnce(&mut Self, T) -> &mut Self,
    ) -> &mut Self {
        self.flag(value.is_some());
        match value {
            Some(value) => write(self, value),
            None => self,
        }
    }

    pub fn list<T>(
        &mut self,
        all: &[T],
        write: impl for<'a> Fn(&'a mut Self, &T) -> &'a mut Self,
    ) -> &mut Self {
        self.len(all.len());
        all.iter().for_each(|one| {
            write(self, one);
        });
        self
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Lists and texts come from packets and from Java's arrays, which are shorter than 2 GiB.
    fn len(&mut self, len: usize) -> &mut Self {
        self.u32(u32::try_from(len).expect("a list shorter than 4 GiB"))
    }
}
