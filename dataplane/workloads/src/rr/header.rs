//! What a request says about itself.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a request or a response at most.
pub const MESSAGE_BYTES_MAX: u32 = 1 << 24;

const MAGIC: [u8; 5] = *b"MLRR\x01";
/// The server closes after its first response.
const FLAG_SERVER_CLOSES: u8 = 1;

/// Sizes of a connection's messages. A client puts them in front of each request that is long
/// enough; a server looks at the first request only. Whoever echoes sends it back unread.
///
/// On the wire, in network order: `M L R R`, version 1, flags, two zero bytes, request size and
/// response size with four bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of each request, [`HEADER_BYTES`]`..=`[`MESSAGE_BYTES_MAX`].
    pub request: u32,
    /// Bytes of each response, `1..=`[`MESSAGE_BYTES_MAX`].
    pub response: u32,
    /// The server closes after its first response.
    pub server_closes: bool,
}

impl Header {
    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let flags = if self.server_closes { FLAG_SERVER_CLOSES } else { 0 };
        let mut bytes = [0; HEADER_BYTES];
        let parts = MAGIC.into_iter().chain([flags, 0, 0]);
        let parts = parts.chain(self.request.to_be_bytes()).chain(self.response.to_be_bytes());
        for (to, from) in bytes.iter_mut().zip(parts) {
            *to = from;
        }
        bytes
    }

    /// Whether a header may begin with these bytes, of which there are at most [`HEADER_BYTES`].
    pub fn may_begin_with(bytes: &[u8]) -> bool {
        bytes.iter().zip(MAGIC).all(|(a, b)| *a == b)
    }

    /// What a peer sent, unless it is no header or contradicts itself.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let [_, _, _, _, _, flags, 0, 0, r0, r1, r2, r3, s0, s1, s2, s3] = *bytes else {
            return None;
        };
        let header = Self {
            request: u32::from_be_bytes([r0, r1, r2, r3]),
            response: u32::from_be_bytes([s0, s1, s2, s3]),
            server_closes: flags & FLAG_SERVER_CLOSES != 0,
        };
        let known = Self::may_begin_with(bytes) && flags & !FLAG_SERVER_CLOSES == 0;
        let sane = (HEADER_BYTES as u32..=MESSAGE_BYTES_MAX).contains(&header.request)
            && (1..=MESSAGE_BYTES_MAX).contains(&header.response);
        (known && sane).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Header = Header { request: 64, response: 1024, server_closes: true };

    #[test]
    fn the_bytes_are_these_and_come_back() {
        let bytes = SAMPLE.encode();
        assert_eq!(bytes, *b"MLRR\x01\x01\0\0\0\0\0\x40\0\0\x04\0");
        assert_eq!(Header::decode(&bytes), Some(SAMPLE));
        for len in 0..=HEADER_BYTES {
            assert!(Header::may_begin_with(&bytes[..len]));
        }
    }

    #[test]
    fn whatever_contradicts_itself_is_no_header() {
        let damaged = |at: usize, value: u8| {
            let mut bytes = SAMPLE.encode();
            bytes[at] = value;
            bytes
        };
        for (at, value) in [(0, b'm'), (4, 2), (5, 2), (6, 1), (7, 1), (8, 255), (12, 255)] {
            assert_eq!(Header::decode(&damaged(at, value)), None, "byte {at}");
        }
        for (request, response) in [(15, 1), (0, 0), (16, 0), (u32::MAX, 1), (16, u32::MAX)] {
            let header = Header { request, response, server_closes: false };
            assert_eq!(Header::decode(&header.encode()), None, "{request} {response}");
        }
    }
}
