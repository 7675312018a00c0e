//! The two sets of defaults.

use core::fmt;
use core::str::FromStr;

/// Which defaults a registry starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// The defaults of Linux: for scripts and for comparisons.
    Linux,
    /// What we ship.
    #[default]
    Millrace,
}

impl Profile {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Linux, Self::Millrace];
    /// The names of both, in the order of [`Self::ALL`].
    pub const NAMES: [&'static str; 2] = ["linux", "millrace"];

    /// The name used in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Millrace => "millrace",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|p| p.name() == text).ok_or_else(|| {
            format!("{} is not a profile: linux or millrace", crate::text::quote(text))
        })
    }
}
