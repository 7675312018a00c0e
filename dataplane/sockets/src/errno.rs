//! Error numbers, as Linux has them on all common machines.

use core::fmt;

macro_rules! errnos {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal,)+) => {
        /// Why a call failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(clippy::upper_case_acronyms, reason = "the names are those of errno(3)")]
        #[repr(i32)]
        pub enum Errno {
            $($(#[doc = $doc])+ $name = $number,)+
        }

        impl Errno {
            /// All that this crate gives.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The name, as in errno(3).
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

errnos! {
    /// Not permitted.
    EPERM = 1,
    /// No such entry.
    ENOENT = 2,
    /// Interrupted: the call was cancelled.
    EINTR = 4,
    /// Bad file descriptor.
    EBADF = 9,
    /// Would block.
    EAGAIN = 11,
    /// Out of memory.
    ENOMEM = 12,
    /// Permission denied.
    EACCES = 13,
    /// Bad address.
    EFAULT = 14,
    /// Exists already.
    EEXIST = 17,
    /// No such device.
    ENODEV = 19,
    /// Invalid argument.
    EINVAL = 22,
    /// Too many open files in the system.
    ENFILE = 23,
    /// Too many open files.
    EMFILE = 24,
    /// Not a request for this kind of file.
    ENOTTY = 25,
    /// Broken pipe: the sending side is shut.
    EPIPE = 32,
    /// Out of the domain of a function.
    EDOM = 33,
    /// Too many levels.
    ELOOP = 40,
    /// Not a socket.
    ENOTSOCK = 88,
    /// Message too long.
    EMSGSIZE = 90,
    /// No such option.
    ENOPROTOOPT = 92,
    /// Protocol not supported.
    EPROTONOSUPPORT = 93,
    /// Socket type not supported.
    ESOCKTNOSUPPORT = 94,
    /// Operation not supported.
    EOPNOTSUPP = 95,
    /// Address family not supported.
    EAFNOSUPPORT = 97,
    /// Address in use.
    EADDRINUSE = 98,
    /// Address not available.
    EADDRNOTAVAIL = 99,
    /// Network unreachable.
    ENETUNREACH = 101,
    /// Connection aborted.
    ECONNABORTED = 103,
    /// Connection reset by the peer.
    ECONNRESET = 104,
    /// No buffer space.
    ENOBUFS = 105,
    /// Connected already.
    EISCONN = 106,
    /// Not connected.
    ENOTCONN = 107,
    /// Timed out.
    ETIMEDOUT = 110,
    /// Connection refused.
    ECONNREFUSED = 111,
    /// Host unreachable.
    EHOSTUNREACH = 113,
    /// Operation already going on.
    EALREADY = 114,
    /// Operation now going on.
    EINPROGRESS = 115,
}

impl Errno {
    /// The number.
    pub const fn number(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for Errno {}
